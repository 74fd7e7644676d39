"""A run behind HTTP, from its first actions to an alarm."""

import threading

import numpy as np
import pytest

import tether
from tests.service.running import running, tries
from tests.service.runs.running_run import collect, run_settings
from tether.rounds import verify_store


def begin(client, number):
    answer = client.post("/v1/begin", json={"round": number, "reason": "enough rows"})
    assert (answer.status_code, answer.json()) == (202, {"beginning": number + 1}), answer.text
    for _ in tries():
        status = client.get("/v1/status").json()
        if status["round"] == number + 1 and not status["beginning"]:
            return status
        assert not status["begin_failure"], status
    raise AssertionError


def test_the_example_runs_end_to_end(tmp_path):
    rng = np.random.default_rng(0)
    store = tmp_path / "clinic.db"
    with running(run_settings(store)) as client:
        assert client.get("/readyz").json() == {"ready": True, "store": True}
        taken, outcomes = collect(client, rng)
        assert {each["served"] for each in taken} == {"safe"}
        assert all(each["stored"] for each in taken)
        collect(client, rng)
        status = client.get("/v1/status").json()
        assert (status["round"], status["beta"], status["alarm"]) == (1, 0.0, None)
        assert status["losses"]["loss"]["tolerated"] == 0.15
        status = begin(client, 1)
        assert float(status["beta"]) > 0, status
        assert 0 < status["losses"]["loss"]["promise"] < 1
        answer = client.post("/v1/actions", json={"context": [0.0, 1.0], "idempotency_key": "a"})
        first = answer.json()
        assert first["served"] == "round 2"
        again = client.post("/v1/actions", json={"context": [0.0, 1.0], "idempotency_key": "a"})
        assert again.json() == first
        other = client.post("/v1/actions", json={"context": [0.5, 1.0], "idempotency_key": "a"})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")

        repeated = client.post("/v1/outcomes", json={"outcomes": outcomes})
        assert repeated.json() == {"new": 0}
        contradiction = {**outcomes[0], "loss": 1.0 - outcomes[0]["loss"]}
        assert client.post("/v1/outcomes", json=contradiction).status_code == 409

        text = client.get("/metrics").text
        assert "tether_round 2.0" in text
        shown = str(status["beta"]).replace("inf", "+Inf")
        assert f"tether_beta {shown}" in text
        assert 'tether_actions_total{failed="false",served="safe",stored="true"} 800.0' in text
        assert "\ntether_share" not in text

        taken = client.post("/v1/actions", json={"contexts": [[0.0, 1.0]] * 200}).json()["actions"]
        bad = [{"id": each["id"], "loss": 1.0} for each in taken]
        client.post("/v1/outcomes", json={"outcomes": bad})  # everyone is harmed
        for _ in tries():
            status = client.get("/v1/status").json()
            if status["alarm"] is not None:
                break
        assert status["alarm"]["monitor"] == "risk"
        after = client.post("/v1/actions", json={"context": [0.0, 1.0]}).json()
        assert after["served"] == "safe"
        resumed = client.post("/v1/resume", json={"reason": "checked"})
        assert resumed.json() == {"halted": False}
        client.post("/v1/halt", json={"reason": "complaints"})
        assert client.get("/v1/status").json()["alarm"]["monitor"] == "halt"
    assert verify_store(store).ok
    with tether.rounds.reopen(store) as run:
        acts = [each.act for each in run.history().audit]
    assert acts == ["begin", "resume", "halt"]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with running(run_settings(tmp_path_factory.mktemp("run") / "clinic.db")) as made:
        made.post("/v1/actions", json={"context": [0.0, 0.0]})
        yield made


def test_requests_go_on_while_a_round_is_calibrated(client, monkeypatch):
    may_go_on = threading.Event()
    import served_run

    def slow(rows):
        assert may_go_on.wait(60)
        raise RuntimeError("no policy after all")

    service_run = client.server.config.app.state.service.run
    monkeypatch.setattr(service_run, "_improve", slow)
    assert callable(served_run.make_optimized)
    assert client.post("/v1/begin", json={"round": 1, "reason": "x"}).status_code == 202
    assert client.post("/v1/actions", json={"context": [0.0, 0.0]}).status_code == 200
    for _ in tries():
        if client.get("/v1/status").json()["beginning"]:
            break
    may_go_on.set()
    for _ in tries():
        status = client.get("/v1/status").json()
        if not status["beginning"] and status["begin_failure"]:
            break
    assert status["begin_failure"] == "RuntimeError: no policy after all"
    assert status["round"] == 1


def test_many_clients_at_once(client):
    """Every action that was answered is stored once, whichever call it shared."""
    from concurrent.futures import ThreadPoolExecutor

    before = len(client.server.config.app.state.service.run.run.pending())

    def ask(number):
        contexts = [[float(number), float(k)] for k in range(1 + number % 3)]
        body = {"contexts": contexts, **({"idempotency_key": f"k{number}"} if number % 2 else {})}
        answers = [client.post("/v1/actions", json=body).json()["actions"] for _ in range(2)]
        return contexts, answers

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(ask, range(24)))
    stored = client.server.config.app.state.service.run.run.pending()
    by_id = dict(
        zip(
            stored.ids.tolist(),
            zip(stored.contexts.tolist(), stored.actions, strict=True),
            strict=True,
        )
    )
    seen = set()
    for number, (contexts, answers) in enumerate(made):
        assert (answers[0] == answers[1]) == bool(number % 2)
        for answer in answers:
            for context, each in zip(contexts, answer, strict=True):
                assert by_id[int(each["id"])] == (context, each["action"])
                seen.add(each["id"])
    assert len(stored) == before + len(seen)
