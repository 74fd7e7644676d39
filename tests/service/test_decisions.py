"""Decisions and outcomes as JSON: repeated, in bulk, strange, and without the store."""

import json
import sqlite3

import jsonschema
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.service.running import keys_of, outcome, running, settings, until
from tether.runs import Run

HELD = {"answer_within": 0.2, "store_deadline": 1.0}


def test_a_decision_is_a_row_and_its_outcome_is_final(tmp_path):
    with running(settings(tmp_path)) as client:
        found = client.post("/v1/decisions", json={"keys": ["ann", 7, "ann", "zoë"]}).json()
        decided = found["decisions"]
        assert [each["key"] for each in decided] == ["ann", 7, "ann", "zoë"]
        assert decided[0] == decided[2]
        assert all(each["stored"] for each in decided)
        again = client.post("/v1/decisions", json={"key": "ann"}).json()
        assert again == decided[0]
        first = outcome("ann", again["system"], complaint=0.25)
        assert client.post("/v1/outcomes", json=first).json() == {"new": 1, "without_row": 0}
        assert client.post("/v1/outcomes", json=first).json() == {"new": 0, "without_row": 0}
        other = outcome("ann", again["system"], complaint=1)
        assert client.post("/v1/outcomes", json=other).status_code == 409
        kept = client.post("/v1/outcomes", json=other | {"keep_first": True})
        assert kept.json() == {"new": 0, "without_row": 0}
        several = [outcome(each["key"], each["system"], complaint=0) for each in decided[1:]]
        several[1] = outcome("ann", again["system"], complaint=0.25)
        several.append(outcome("never seen", "old", complaint=1))
        found = client.post("/v1/outcomes", json={"outcomes": several}).json()
        assert found == {"new": 2, "without_row": 1}
        metrics = client.get("/metrics").text
        assert 'tether_outcomes_total{release="release"} 3.0' in metrics
    with Run.open(tmp_path / "release.db") as run:
        assert run.verify() == []
        (step,) = run.history().units
        assert sum(step.rows.values()) == 3


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("decisions", {}, "either key or keys"),
        ("decisions", {"key": ""}, "1 to 500 bytes"),
        ("decisions", {"key": "é" * 300}, "1 to 500 bytes"),
        ("decisions", {"key": "a", "keys": []}, "unknown field `keys`"),
        ("decisions", {"keys": list(range(1001))}, "length <= 1000"),
        ("outcomes", outcome("a", "old", harm=1), "must have names among ['complaint']"),
        ("outcomes", outcome("a", "old", complaint=5), "expected a loss from 0 to 1"),
        ("outcomes", outcome("a", "old"), "at `$.losses`"),
        ("halt", {"reason": " "}, "at `$.reason`"),
    ],
)
def test_what_is_wrong_is_named(client, path, body, words):
    found = client.post(f"/v1/{path}", json=body)
    assert found.status_code == 400
    assert words.lower() in found.json()["error"]["message"].lower()


NAMES = st.sampled_from(["model", "stream", "\ud800"]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3),
    max_leaves=6,
)
FIELDS = ["key", "keys", "system", "losses", "outcomes", "context", "reason", "step", "keep_first"]
FIELDS += ["model", "user", "safety_identifier", "stream", "\ud800"]
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4) | VALUES


@examples(max_examples=140, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_body_is_too_strange_and_every_answer_is_what_the_schema_says(client, data):
    schema = client.get("/openapi.json").json()
    paths = sorted(path for path, each in schema["paths"].items() if "post" in each)
    path = data.draw(st.sampled_from(paths))
    content = data.draw(BODIES.map(json.dumps).map(str.encode) | st.binary(max_size=30))
    found = client.post(
        path.replace("{flag}", "release"),
        content=content,
        headers={"Content-Type": "application/json"},
    )
    told = schema["paths"][path]["post"]["responses"]
    status = str(found.status_code)
    content = told[status if status in told else f"{status[0]}XX"].get("content")
    if "completions" in path:
        assert found.status_code in (200, 400)
        assert found.is_success or found.json()["error"]["type"] == "invalid_request_error"
    elif content is not None and "ofrep" not in path:
        expected = content["application/json"]["schema"] | {"components": schema["components"]}
        jsonschema.validate(found.json(), expected)


def test_decisions_go_on_while_another_program_holds_the_store(tmp_path):
    """A store that is locked: keys have the old system without a row, and later their own."""
    with running(settings(tmp_path, limits=HELD)) as client:
        new = keys_of(client, "new", 3)
        with Run.open(tmp_path / "release.db", deadline=60) as other:

            def hold(transaction):
                held = [client.post("/v1/decisions", json={"keys": new}) for _ in range(3)]
                until(lambda: not client.get("/readyz").json()["store"])
                flag = client.post(
                    "/ofrep/v1/evaluate/flags/release", json={"context": {"targetingKey": new[0]}}
                )
                lost = client.post("/v1/outcomes", json=outcome(new[0], "new", complaint=0))
                gate, status = client.get("/v1/gate"), client.get("/v1/status").json()
                return held, flag.json(), lost, gate, status, client.get("/metrics").text

            held, flag, lost, gate, status, metrics = other.submit(hold, 60)
        decided = [one for each in held for one in each.json()["decisions"]]
        assert {(one["system"], one["stored"]) for one in decided} == {("old", False)}
        assert (flag["variant"], flag["reason"]) == ("old", "UNKNOWN")
        assert flag["metadata"] == {"stored": False}
        assert lost.status_code == gate.status_code == 503
        assert (status["verdict"], status["share"]) == ("unknown", 0)
        assert status["losses"]["complaint"]["promise"] is None
        assert 'tether_share{release="release"} 0.0' in metrics
        assert 'tether_store_available{release="release"} 0.0' in metrics
        after = until(
            lambda: client.post("/v1/decisions", json={"keys": new}).json()["decisions"],
            lambda after: all(each["stored"] for each in after),
        )
        assert {each["system"] for each in after} == {"new"}
        until(lambda: client.get("/readyz").json()["store"])
    with Run.open(tmp_path / "release.db") as run:
        assert run.verify() == []


def test_a_forged_alarm_is_not_obeyed_and_a_broken_chain_serves_the_old_system(tmp_path):
    with running(settings(tmp_path, limits=HELD)) as client:
        new = keys_of(client, "new")
        client.post("/v1/halt", json={"reason": "a rumour"})
        with sqlite3.connect(tmp_path / "release.db") as forger:
            row = forger.execute(
                "SELECT seq, at FROM tether_events ORDER BY seq DESC LIMIT 1"
            ).fetchone()
            body = forger.execute("SELECT body FROM tether_events WHERE kind = 'act'").fetchone()[0]
            forger.execute(
                "INSERT INTO tether_events VALUES (?, 'act', ?, x'00', ?, zeroblob(32), NULL)",
                (row[0] + 1, row[1] + 1, body.replace(b"halt", b"resume")),
            )
        for _ in range(3):
            found = client.post("/v1/decisions", json={"key": new[0]}).json()
            assert (found["system"], found["stored"]) == ("old", False)
        assert client.get("/v1/gate").status_code == 503
