"""One document for all: who watches, how often it is read, and what they are told."""

import asyncio
import json

import pytest

from tests.service.dashboard.watched import Counting
from tether.service.api_errors import ApiError
from tether.service.dashboard import live_document
from tether.service.dashboard.live_document import LiveDocument

PATIENCE = 60.0
"""A deadline that no machine reaches."""


def run(scenario, every=0.01):
    """Run a scenario with a live document of something that counts."""

    async def main():
        watched = Counting()
        live = LiveDocument(watched, lambda: {"fact": 1}, every=every)
        try:
            await asyncio.wait_for(scenario(live, watched), PATIENCE)
        finally:
            await live.close()

    asyncio.run(main())


def parts(snapshot, since=0, **more):
    return json.loads(snapshot.to_json(since, **more))["parts"]


def test_all_viewers_share_one_look():
    async def scenario(live, watched):
        async def view():
            with live.viewing():
                return await live.after(0)

        found = await asyncio.gather(*(view() for _ in range(20)))
        assert {each.version for each in found} == {1}
        assert watched.looks == 1
        facts = {"fact": 1, "is_read": True}
        assert parts(found[0], you=3) == {"value": 0, "service": facts, "you": 3}

    run(scenario, every=PATIENCE)


def test_nothing_is_read_while_nobody_watches():
    async def scenario(live, watched):
        await asyncio.sleep(0.05)
        assert watched.looks == 0
        with live.viewing():
            await live.after(0)
            task = live._task
        await task  # it ends by itself
        looks = watched.looks
        watched.shown = {"value": 5}
        await asyncio.sleep(0.05)
        assert watched.looks == looks
        with live.viewing():  # and what it had is not shown any more
            assert parts(await live.after(0))["value"] == 5

    run(scenario)


def test_viewers_learn_what_changed():
    async def scenario(live, watched):
        watched.shown = {"value": 0, "other": [1]}
        with live.viewing():
            first = await live.after(0)
            watched.shown = {"value": 1, "other": [1]}
            second = await live.after(first.version)
            assert parts(second, first.version) == {"value": 1}
            assert parts(second).keys() == {"value", "other", "service"}
            assert second.as_of >= first.as_of

    run(scenario)


@pytest.mark.parametrize("bug", [False, True])
def test_what_was_read_stays_while_the_store_is_silent(bug, caplog):
    async def scenario(live, watched):
        with live.viewing():
            first = await live.after(0)
            watched.shown = {"value": float("nan")} if bug else None
            second = await live.after(first.version)
            assert parts(second)["value"] == 0
            assert parts(second)["service"] == {"fact": 1, "is_read": False}
            watched.shown = {"value": 2}
            third = await live.after(second.version)
            assert parts(third, second.version)["value"] == 2

    run(scenario)
    assert ("ValueError" if bug else "could not be read: no route") in caplog.text


def test_viewers_are_told_that_a_look_takes_long(monkeypatch):
    monkeypatch.setattr(live_document, "LATE_SECONDS", 0.01)

    async def scenario(live, watched):
        with live.viewing():
            first = await live.after(0)
            watched.goes_on.clear()
            second = await live.after(first.version)
            assert parts(second, first.version) == {"service": {"fact": 1, "is_read": False}}
            watched.goes_on.set()
            third = await live.after(second.version)
            assert parts(third)["service"]["is_read"]

    run(scenario)


def test_there_are_not_too_many_viewers(monkeypatch):
    monkeypatch.setattr(live_document, "MAX_VIEWERS", 1)

    async def scenario(live, watched):
        with live.viewing():
            with pytest.raises(ApiError, match="1 others watch") as error, live.viewing():
                pass
            assert error.value.status == 503
        with live.viewing():
            pass

    run(scenario)


def test_the_end_of_a_service_wakes_who_waits():
    async def scenario(live, watched):
        with live.viewing():
            first = await live.after(0)
            waiting = asyncio.create_task(live.after(first.version))
            await asyncio.sleep(0)
            live.end()
            assert await waiting is None
        with pytest.raises(ApiError), live.viewing():
            pass

    run(scenario, every=PATIENCE)
