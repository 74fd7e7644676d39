"""The example that halts a release for an alert of Prometheus."""

import runpy
from pathlib import Path
from threading import Thread

import httpx2
import pytest
import yaml

from tests.service.running import running, settings
from tether.rounds import read_release

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def example(monkeypatch):
    """Makes the example, for a service at an address."""

    def made(url):
        monkeypatch.setenv("TETHER_URL", url)
        return runpy.run_path(str(EXAMPLES / "halt_on_alert.py"), run_name="example")

    return made


def message(status="firing", **labels):
    """What Alertmanager sends, as far as it is read."""
    labels = {"alertname": "TetherNewSystemExceeds"} | labels
    annotations = {"summary": "The new system is clearly above what is tolerated."}
    alert = {"status": status, "labels": labels, "annotations": annotations}
    return {"version": "4", "status": status, "alerts": [alert]}


def test_it_halts_once_for_alerts_that_ask_for_it(tmp_path, example):
    store = tmp_path / "release.db"
    with running(settings(store)) as client:
        halt = example(str(client.base_url).rstrip("/"))["halt"]
        for other in (message(), message("resolved", act="halt")):
            halt(other)
        assert client.get("/v1/status").json()["alarm"] is None
        for _ in range(2):  # Alertmanager repeats itself
            halt(message(act="halt"))
    (act,) = read_release(store).audit
    assert act.reason.startswith("TetherNewSystemExceeds: The new system is clearly above")


def test_a_halt_that_is_not_stored_is_tried_again(example):
    names = example("http://127.0.0.1:9")  # nobody is there
    server = names["HTTPServer"](("127.0.0.1", 0), names["Receiver"])
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert httpx2.post(url, json=message(act="halt")).status_code == 502
        assert httpx2.post(url, json=message()).status_code == 200
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_alert_of_the_rules_asks_for_it():
    rules = yaml.safe_load((EXAMPLES / "prometheus-rules.yml").read_text())["groups"][0]["rules"]
    asking = [each["alert"] for each in rules if each["labels"].get("act") == "halt"]
    assert asking == ["TetherNewSystemExceeds"]
