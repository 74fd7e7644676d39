"""The dashboard over HTTP: its page, its document, its events, and who may see them."""

import json
from threading import Thread

import httpx2
import numpy as np

from tests.service.running import running, settings
from tests.service.runs.running_run import collect, run_settings


def events(client, **options):
    """The parts of each event of a stream, as long as it goes on."""
    with client.stream("GET", "/v1/events", timeout=60, **options) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data:"):
                yield json.loads(line[5:])["parts"]


def test_events_tell_of_a_halt_and_end_with_the_service(tmp_path):
    """The grace of the web server is longer than the test waits for its end."""
    with httpx2.Client() as viewer, running(settings(tmp_path / "release.db")) as client:
        client.server.config.timeout_graceful_shutdown = 600
        viewer.base_url = client.base_url
        seen, stream = {}, events(viewer)
        seen |= next(stream)
        assert (seen["kind"], seen["alarms"]) == ("release", [])
        assert client.post("/v1/halt", json={"reason": "a test"}).status_code == 200
        for each in stream:
            seen |= each
            if seen["alarms"]:
                break
        assert (seen["level"]["text"], seen["state"]["kind"]) == ("0 %", "alarm")
        client.close()
        client.server.should_exit = True
        rest = Thread(target=lambda: list(stream), daemon=True)
        rest.start()
        rest.join(30)
        assert not rest.is_alive()


def test_a_run_has_the_same_page_and_tells_of_its_rounds(tmp_path):
    with httpx2.Client() as viewer, running(run_settings(tmp_path / "clinic.db")) as client:
        viewer.base_url = client.base_url
        assert client.get("/").text.startswith("<!doctype html>")
        seen, stream = {}, events(viewer)
        seen |= next(stream)
        assert (seen["kind"], seen["number"], seen["words"]["unit"]) == ("run", 1, "round")
        assert [each["name"] for each in seen["offers"]] == ["halt", "resume", "begin"]
        collect(client, np.random.default_rng(0))
        begin = {"round": seen["number"], "reason": "a test"}
        assert client.post("/v1/begin", json=begin).status_code == 202
        for each in stream:
            seen |= each
            if seen["number"] == 2 and seen["acts"]:
                break
        assert (seen["path"][-1]["number"], seen["acts"][0]["act"]) == (2, "begin")
        found = client.get("/v1/dashboard").json()["parts"]
        assert found["recent"][0]["context"].startswith("[")
        assert found["service"]["outage"] is None
        assert {"/", "/v1/dashboard", "/v1/events"} <= set(
            client.get("/openapi.json").json()["paths"]
        )
        stream.close()
