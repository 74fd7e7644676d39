"""The dashboard over HTTP: its page, its document, its events, and who may see them."""

import json
import re
from threading import Thread

import httpx2
import numpy as np
import pytest

from tests.llm.chat_server import ChatServer
from tests.service.gateway.tethered_gateway import service_settings
from tests.service.running import bearer, running, settings
from tests.service.runs.running_run import collect, run_settings
from tether.service import ApiKeys, add_key, remove_key
from tether.service.access.key_file import KeyFile
from tether.service.dashboard.dashboard import PAGE_FILES, PAGE_POLICY


def events(client, **options):
    """The parts of each event of a stream, as long as it goes on."""
    with client.stream("GET", "/v1/events", timeout=60, **options) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data:"):
                yield json.loads(line[5:])["parts"]


def test_the_page_is_self_contained_and_has_no_inline_code(client):
    for path, (_, media) in PAGE_FILES.items():
        found = client.get(path)
        assert found.status_code == 200
        assert found.headers["content-type"] == f"{media}; charset=utf-8"
        assert found.headers["content-security-policy"] == PAGE_POLICY
        assert found.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", found.text)
    page = client.get("/").text
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", page)
    linked = set(re.findall(r'(?:src|href)="([^"#:]+)"', page))
    scripts = "".join(client.get(path).text for path in PAGE_FILES if path.endswith(".js"))
    linked |= set(re.findall(r'from "\./([^"]+)"', scripts))
    assert {f"/{name}" for name in linked} == set(PAGE_FILES) - {"/"}
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)


def test_the_document_says_what_is_shown_and_to_whom(client):
    client.post("/v1/decisions", json={"key": "<img src=x>"})
    found = client.get("/v1/dashboard").json()["parts"]
    assert found["recent"][0]["key"] == "<img src=x>"
    assert found["you"]["name"] == "anyone on this machine"
    assert "operate" in found["you"]["roles"]
    assert found["service"]["outage"] is None


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


def test_a_tethered_gateway_shows_questions_and_answers(tmp_path):
    with (
        ChatServer(lambda *_: "<b>no</b>") as upstream,
        running(service_settings(tmp_path / "gateway.db", upstream.url)) as client,
    ):
        asked = {"model": "any", "messages": [{"role": "user", "content": "treat?"}]}
        assert client.post("/v1/chat/completions", json=asked).status_code == 200
        found = client.get("/v1/dashboard").json()["parts"]
        (action,) = found["recent"]
        assert (found["kind"], found["title"], action["served"]) == ("run", "gateway", "safe")
        assert "treat?" in action["context"]
        assert "<b>no</b>" in action["action"]
        assert [each["name"] for each in found["offers"]] == ["halt", "resume", "begin"]


def test_only_keys_that_may_read_see_it(tmp_path):
    file = tmp_path / "keys.json"
    reader, shop = add_key(file, "ann", ["read"]), add_key(file, "shop", ["decide"])
    with running(settings(tmp_path / "release.db", keys=ApiKeys.read(file))) as client:
        assert client.get("/").status_code == 200  # it has no data
        for path in ("/v1/dashboard", "/v1/events"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers=bearer(shop)).status_code == 403
        found = client.get("/v1/dashboard", headers=bearer(reader)).json()["parts"]
        assert found["you"] == {"name": "ann", "roles": ["read"]}
        assert next(events(client, headers=bearer(reader)))["you"]["name"] == "ann"


def test_a_revoked_key_does_not_go_on_to_watch(tmp_path):
    file = tmp_path / "keys.json"
    ann, _ = (add_key(file, name, ["read"]) for name in ("ann", "bob"))
    with running(settings(tmp_path / "release.db", keys=KeyFile(file))) as client:
        stream = events(client, headers=bearer(ann))
        assert next(stream)["you"]["name"] == "ann"
        remove_key(file, "ann")
        list(stream)  # it ends
        assert client.get("/v1/events", headers=bearer(ann)).status_code == 401


@pytest.mark.parametrize("path", ["/dashboard.html", "/dashboard.py", "/../dashboard.py"])
def test_no_other_file_is_served(client, path):
    assert client.get(path).status_code == 404
