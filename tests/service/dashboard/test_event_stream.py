"""The stream of events: what is sent, and when it ends."""

import asyncio
import json

import pytest

from tests.service.dashboard.watched import Counting
from tether.service.dashboard import event_stream
from tether.service.dashboard.event_stream import EventStream
from tether.service.dashboard.live_document import LiveDocument

PATIENCE = 60.0


def run(scenario, every=0.01):
    async def main():
        watched = Counting()
        live = LiveDocument(watched, dict, every=every)
        try:
            await asyncio.wait_for(scenario(live, watched), PATIENCE)
        finally:
            await live.close()

    asyncio.run(main())


class Viewer:
    """A web server's side of a stream."""

    def __init__(self, live, *options, **more):
        self.sent, self.left = asyncio.Queue(), asyncio.Event()
        stream = EventStream(live, *options, **more)
        self.task = asyncio.create_task(stream({}, self.receive, self.send))

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.put_nowait(message)


def test_the_whole_document_comes_first_and_then_changes():
    async def scenario(live, watched):
        watched.shown = {"value": 0, "key": "two\nlines"}
        viewer = Viewer(live, you="ann")
        start = await viewer.sent.get()
        headers = dict(start["headers"])
        assert headers[b"content-type"].startswith(b"text/event-stream")
        assert b"content-length" not in headers
        first = (await viewer.sent.get())["body"].decode()
        assert first.startswith("data:")
        assert first.index("\n") == len(first) - 2
        assert json.loads(first[5:])["parts"] | {"service": 0} == {
            "value": 0,
            "key": "two\nlines",
            "service": 0,
            "you": "ann",
        }
        watched.shown = {"value": 1, "key": "two\nlines"}
        second = json.loads((await viewer.sent.get())["body"][5:])
        assert second["parts"] == {"value": 1}
        viewer.left.set()
        await viewer.task
        assert live.viewers == 0

    run(scenario)


def test_the_end_of_the_service_completes_the_answer():
    async def scenario(live, watched):
        viewer = Viewer(live)
        for _ in range(2):
            await viewer.sent.get()
        live.end()
        await viewer.task
        last = await viewer.sent.get()
        assert (last["body"], last["more_body"]) == (b"", False)

    run(scenario, every=PATIENCE)


def test_a_silent_stream_says_that_it_is_alive(monkeypatch):
    monkeypatch.setattr(event_stream, "ALIVE_SECONDS", 0.01)

    async def scenario(live, watched):
        viewer = Viewer(live)
        while (await viewer.sent.get()).get("body") != b":\n\n":
            pass
        viewer.left.set()
        await viewer.task

    run(scenario)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_slow_viewer_is_dropped(monkeypatch, caplog, taken):
    caplog.set_level("INFO", "tether.service")
    monkeypatch.setattr(event_stream, "SLOW_SECONDS", 0.01)

    class Slow(Viewer):
        async def send(self, message):
            await super().send(message)
            if self.sent.qsize() > taken:
                await asyncio.Event().wait()

    async def scenario(live, watched):
        viewer = Slow(live)
        await viewer.task
        assert live.viewers == 0

    run(scenario)
    assert "a slow viewer of the dashboard was dropped" in caplog.text


def test_a_viewer_who_may_not_watch_any_more_is_told_nothing_more(monkeypatch):
    """Also where nothing changes."""
    monkeypatch.setattr(event_stream, "ALLOWED_SECONDS", 0.01)
    allowed = [True]

    async def scenario(live, watched):
        viewer = Viewer(live, lambda: allowed[0])
        for _ in range(2):
            await viewer.sent.get()
        allowed[0] = False
        watched.shown = {"value": 1}
        await viewer.task
        last = await viewer.sent.get()
        assert (last["body"], last["more_body"]) == (b"", False)
        assert live.viewers == 0

    run(scenario, every=PATIENCE)
