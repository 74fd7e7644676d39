"""A run behind HTTP, from its first actions to an alarm: the example of a clinic."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.service.running import LONG, running, settings, tries, until
from tether.runs import Run

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_settings(store, **tables):
    """Settings of the example."""
    table = {"controller": "served_run:make_controller", "optimized": "served_run:make_optimized"}
    return settings(EXAMPLES, run=table | {"store": str(store)}, **tables)


def collect(client, rng, count=400):
    """Actions in many contexts, and their outcomes: who is treated may be harmed, or helped."""
    contexts = rng.normal(size=(count, 2)).tolist()
    taken = client.post("/v1/actions", json={"contexts": contexts}).json()["actions"]
    outcomes = []
    for context, each in zip(contexts, taken, strict=True):
        treated = each["action"] == "treat"
        loss, reward = float(treated and context[0] > 0.5), float(treated and context[1] > 0)
        outcomes.append({"id": each["id"], "loss": loss, "reward": reward})
    answer = client.post("/v1/outcomes", json={"outcomes": outcomes})
    assert answer.json() == {"new": count}, answer.text
    return taken, outcomes


def begin(client, number):
    """Begin the round after one, and wait for it."""
    answer = client.post("/v1/begin", json={"round": number, "reason": "enough rows"})
    assert (answer.status_code, answer.json()) == (202, {"beginning": number + 1}), answer.text
    for _ in tries():
        status = client.get("/v1/status").json()
        if status["step"]["number"] == number + 1 and not status["more"]["beginning"]:
            return status
        assert not status["more"]["begin_failure"], status


def test_the_example_runs_end_to_end(tmp_path):
    rng, store = np.random.default_rng(0), tmp_path / "clinic.db"
    with running(run_settings(store)) as client:
        taken, outcomes = collect(client, rng)
        assert {(each["served"], each["stored"]) for each in taken} == {("safe", True)}
        collect(client, rng)
        status = client.get("/v1/status").json()
        assert (status["step"]["level"], status["share"], status["alarm"]) == ("-inf", None, None)
        assert status["losses"]["loss"]["tolerated"] == 0.15
        status = begin(client, 1)
        assert float(status["step"]["level"]) > -10, status
        assert 0 < status["losses"]["loss"]["promise"] < 1
        asked, key = {"context": [0.0, 1.0]}, {"headers": {"Idempotency-Key": "a"}}
        first = client.post("/v1/actions", json=asked, **key).json()
        assert first["served"] == "round 2"
        assert client.post("/v1/actions", json=asked, **key).json() == first
        other = client.post("/v1/actions", json={"context": [0.5, 1.0]}, **key)
        assert other.status_code == 409

        assert client.post("/v1/outcomes", json={"outcomes": outcomes}).json() == {"new": 0}
        contradiction = {**outcomes[0], "loss": 1.0 - outcomes[0]["loss"]}
        assert client.post("/v1/outcomes", json=contradiction).status_code == 409
        metrics = client.get("/metrics").text
        assert 'tether_step{release="run"} 2.0' in metrics
        assert 'tether_actions_total{release="run",served="safe",stored="true"} 800.0' in metrics
        assert 'tether_share{release="run"}' not in metrics
        assert client.get("/v1/document").json()["live"]["more"]["may_begin"]

        taken = client.post("/v1/actions", json={"contexts": [[0.0, 1.0]] * 200}).json()["actions"]
        bad = [{"id": each["id"], "loss": 1.0} for each in taken]
        client.post("/v1/outcomes", json={"outcomes": bad})  # everyone is harmed
        after = client.post("/v1/actions", json={"context": [0.0, 1.0]}).json()
        assert after["served"] == "safe"
        status = until(
            lambda: client.get("/v1/status").json(), lambda status: status["verdict"] == "fail"
        )
        assert status["alarm"]["monitor"] == "stop"
        assert client.post("/v1/resume", json={"reason": "checked"}).json() == {"halted": False}
        client.post("/v1/halt", json={"reason": "complaints"})
        assert client.get("/v1/status").json()["alarm"]["monitor"] == "halt"
    with Run.open(store) as run:
        assert run.verify() == []
        assert [each.act for each in run.history().acts] == ["begin", "resume", "halt"]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    with running(run_settings(tmp_path_factory.mktemp("run") / "clinic.db")) as made:
        made.post("/v1/actions", json={"context": [0.0, 0.0]})
        yield made


def test_requests_go_on_while_a_round_is_calibrated(clinic, monkeypatch):
    may_go_on = threading.Event()

    def slow(rows):
        assert may_go_on.wait(LONG)
        raise RuntimeError("no policy after all")

    (served,) = clinic.service.served
    monkeypatch.setattr(served, "_improve", slow)
    asked = {"round": 1, "reason": "x"}
    assert clinic.post("/v1/begin", json=asked).status_code == 202
    assert clinic.post("/v1/begin", json=asked).status_code == 202  # it may be repeated
    assert clinic.post("/v1/begin", json=asked | {"round": 7}).status_code == 409
    assert clinic.post("/v1/actions", json={"context": [0.0, 0.0]}).status_code == 200
    assert clinic.get("/v1/status").json()["more"]["beginning"] == 2
    may_go_on.set()
    status = until(
        lambda: clinic.get("/v1/status").json(), lambda status: status["more"]["begin_failure"]
    )
    assert status["more"]["begin_failure"] == "RuntimeError: no policy after all"
    assert status["step"]["number"] == 1


def test_a_request_that_is_repeated_begins_one_round(tmp_path, monkeypatch):
    """At once, and when its round has begun and the service has not looked at the store since."""
    store, asked = tmp_path / "clinic.db", {"round": 1, "reason": "x"}
    with running(run_settings(store)) as client:
        (served,) = client.service.served
        monkeypatch.setattr(served, "look", lambda: asyncio.sleep(0))
        monkeypatch.setattr(served, "_improve", lambda rows: None)  # a round of the safe policy
        for _ in range(3):
            with ThreadPoolExecutor(8) as threads:
                found = threads.map(lambda _: client.post("/v1/begin", json=asked), range(8))
                assert {each.status_code for each in found} == {202}
            until(lambda: served.told()["beginning"] is None)
    with Run.open(store) as run:
        assert (len(run.history().units), len(run.history().acts)) == (2, 1)


def test_many_clients_at_once(clinic):
    """Every action that was answered is stored once."""
    (served,) = clinic.service.served
    before = len(served.run.pending())

    def ask(number):
        contexts = [[float(number), float(k)] for k in range(1 + number % 3)]
        given = {"json": {"contexts": contexts}}
        given["headers"] = {"Idempotency-Key": f"k{number}"} if number % 2 else {}
        answers = [clinic.post("/v1/actions", **given).json()["actions"] for _ in range(2)]
        return contexts, answers

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(ask, range(24)))
    stored = served.run.pending()
    rows = zip(stored.contexts.tolist(), stored.actions.tolist(), strict=True)
    by_id = dict(zip(stored.ids.tolist(), rows, strict=True))
    seen = set()
    for number, (contexts, answers) in enumerate(made):
        assert (answers[0] == answers[1]) == bool(number % 2)
        for answer in answers:
            for context, each in zip(contexts, answer, strict=True):
                assert by_id[int(each["id"])] == (context, each["action"])
                seen.add(each["id"])
    assert len(stored) == before + len(seen)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("actions", {}, "either context or contexts"),
        ("actions", {"context": {"age": 3}}, "numbers and lists of numbers"),
        ("actions", {"contexts": [[1.0, 2.0], [1.0]]}, "lists of numbers of one length"),
        ("actions", {"context": [1.0, 2.0, 3.0]}, "context"),
        ("outcomes", {"id": "99999", "loss": 0}, "unknown"),
        ("outcomes", {"id": "0", "loss": 2}, "from 0 to 1"),
        ("outcomes", {"id": "0"}, "either loss or losses"),
    ],
)
def test_what_is_wrong_is_named(clinic, path, body, words):
    found = clinic.post(f"/v1/{path}", json=body)
    assert found.status_code == 400
    assert words in found.json()["error"]["message"]


def test_the_safe_policy_acts_while_the_store_is_held_and_its_rows_are_stored_later(tmp_path):
    store = tmp_path / "clinic.db"
    with running(run_settings(store, limits={"store_deadline": 1.0})) as client:
        client.post("/v1/actions", json={"context": [0.0, 0.0]})
        with Run.open(store, deadline=LONG) as other:
            found = other.submit(
                lambda t: client.post("/v1/actions", json={"context": [0.0, 0.0]}), LONG
            ).json()
        assert (found["served"], found["stored"]) == ("safe", False)
        until(
            lambda: client.post("/v1/outcomes", json={"id": found["id"], "loss": 0}),
            lambda answer: answer.status_code == 200,
        )
        until(
            lambda: client.get("/v1/status").json()["losses"]["loss"]["old"]["outcomes"] == 1
        )  # what waits is delivered once
    with Run.open(store) as run:
        assert run.verify() == []
        assert sum(run.history().units[0].rows.values()) == 2
