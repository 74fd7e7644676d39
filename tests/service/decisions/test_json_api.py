"""Decisions, outcomes and the status as JSON."""

import re
import threading
from datetime import datetime

import pytest

from tests.service.running import running, settings, tries
from tether.release import ArmCounts
from tether.rounds import read_release, verify_store
from tether.rounds.releases.step import WITHOUT_ROWS


def outcome(key, loss=0.0, system="old"):
    return {"key": key, "system": system, "losses": {"complaint": loss}}


def test_decisions_are_the_same_again_and_stored_once(tmp_path):
    store = tmp_path / "release.db"
    with running(settings(store)) as client:
        one = client.post("/v1/decisions", json={"key": "ann"})
        assert one.json() == {"key": "ann", "system": "old", "stored": True}
        many = client.post("/v1/decisions", json={"keys": ["ann", "bob", 7, "7", "ann"]}).json()
        assert [each["key"] for each in many["decisions"]] == ["ann", "bob", 7, "7", "ann"]
        assert all(each["stored"] for each in many["decisions"])
        assert client.post("/v1/decisions", json={"keys": []}).json() == {"decisions": []}
    step = read_release(store).steps[0]
    assert step.old.rows + step.new.rows == 3
    assert verify_store(store).ok


def test_many_clients_at_once_get_the_systems_that_are_stored(tmp_path):
    store, answers = tmp_path / "release.db", {}
    guardrails = {"complaint": 0.5}
    with running(settings(store, release={"guardrails": guardrails})) as client:

        def ask(part):
            for number in range(25):
                key = f"{part % 4} {number}"  # two threads ask for each key
                found = client.post("/v1/decisions", json={"key": key}).json()
                answers.setdefault(key, set()).add((found["system"], found["stored"]))

        threads = [threading.Thread(target=ask, args=(part,)) for part in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(answers) == 100
    assert all(len(found) == 1 for found in answers.values())
    new = sum(found == {("new", True)} for found in answers.values())
    step = read_release(store).steps[0]
    assert (step.new.rows, step.old.rows) == (new, 100 - new)
    assert verify_store(store).ok


def test_outcomes_may_be_repeated_but_not_changed(client):
    client.post("/v1/decisions", json={"keys": ["eve", "joe"]})
    assert client.post("/v1/outcomes", json=outcome("eve")).json() == {"new": 1, "without_row": 0}
    both = {"outcomes": [outcome("eve"), outcome("joe", 1)]}
    assert client.post("/v1/outcomes", json=both).json() == {"new": 1, "without_row": 0}
    assert client.post("/v1/outcomes", json=both).json() == {"new": 0, "without_row": 0}
    changed = client.post("/v1/outcomes", json=outcome("joe", 0.5))
    assert changed.status_code == 409
    assert changed.json()["error"]["code"] == "conflict"
    kept = client.post("/v1/outcomes", json=outcome("joe", 0.5) | {"keep_first": True})
    assert kept.json() == {"new": 0, "without_row": 0}
    assert client.post("/v1/outcomes", json={"outcomes": []}).json() == {"new": 0, "without_row": 0}


def test_an_outcome_of_the_old_system_without_a_row_is_skipped(client):
    """The old system may have answered while the store did not."""
    found = client.post("/v1/outcomes", json=outcome("unseen")).json()
    assert found.pop("message").startswith("1 key was skipped: the old system has no row of it. ")
    assert found == {"new": 0, "without_row": 1}
    client.post("/v1/decisions", json={"key": "ann"})
    other = client.post("/v1/outcomes", json=outcome("ann", system="new"))
    assert other.status_code == 400
    assert """But key 'ann' was assigned "old" in step 1""" in other.json()["error"]["message"]
    refused = client.post("/v1/outcomes", json=outcome("unseen", system="new"))
    assert refused.status_code == 400
    assert "never assigned" in refused.json()["error"]["message"]


def test_an_outcome_that_is_in_a_request_twice_counts_once(client):
    client.post("/v1/decisions", json={"keys": ["mia", 12]})
    twice = {"outcomes": [outcome("mia", 0.5), outcome(12), outcome("mia", 0.5), outcome("12")]}
    assert client.post("/v1/outcomes", json=twice).json() == {"new": 2, "without_row": 0}
    client.post("/v1/decisions", json={"key": "noa"})
    in_order = {"outcomes": [outcome("noa", 0), outcome("noa", 1)], "keep_first": True}
    assert client.post("/v1/outcomes", json=in_order).json() == {"new": 1, "without_row": 0}
    assert client.post("/v1/outcomes", json=outcome("noa", 1)).status_code == 409


def test_a_key_that_moved_has_outcomes_of_both_systems_in_one_request(tmp_path):
    """A batch of late outcomes: each belongs to its own row."""
    store, release = tmp_path / "release.db", {"guardrails": {"complaint": 0.5}}
    with running(settings(store, release=release)) as client:
        keys = [f"user {each}" for each in range(40)]
        client.post("/v1/halt", json={"reason": "a test"})
        client.post("/v1/decisions", json={"keys": keys})  # the old system has a row of each
        client.post("/v1/resume", json={"reason": "over"})
        for _ in tries():
            if client.get("/v1/status").json()["share"] > 0:
                break
        found = client.post("/v1/decisions", json={"keys": keys}).json()["decisions"]
        moved = next(each["key"] for each in found if each["system"] == "new")
        given = [outcome(moved, 0.25), outcome(moved, 1, "new"), outcome(moved, 0.25)]
        sent = {"outcomes": [*given, outcome("who", 0, "new")], "skip_unknown": True}
        answer = client.post("/v1/outcomes", json=sent).json()
        assert answer == {
            "new": 2,
            "without_row": 1,
            "skipped": [{"key": "who", "system": "new", "assigned": []}],
        }
        differ = {"outcomes": [*given, outcome(moved, 0, "new")]}
        assert client.post("/v1/outcomes", json=differ).status_code == 400
        assert client.post("/v1/outcomes", json=outcome(moved, 0.25)).json()["new"] == 0
        assert client.post("/v1/outcomes", json=outcome(moved, 0, "new")).status_code == 409
    assert verify_store(store).ok


def test_outcomes_without_a_row_are_skipped_and_listed_if_asked_for(client):
    client.post("/v1/decisions", json={"keys": ["uma", "val"]})
    given = [outcome("uma", 1), outcome("val", 1, "new"), outcome("who", 1, "new"), outcome(5)]
    assert client.post("/v1/outcomes", json={"outcomes": given}).status_code == 400
    found = client.post("/v1/outcomes", json={"outcomes": given, "skip_unknown": True}).json()
    assert found == {
        "new": 1,
        "without_row": 3,
        "skipped": [
            {"key": "val", "system": "new", "assigned": ["old"]},
            {"key": "who", "system": "new", "assigned": []},
            {"key": 5, "system": "old", "assigned": []},
        ],
    }
    assert client.post("/v1/outcomes", json=outcome("uma", 0.5)).status_code == 409  # stored
    alone = outcome("who", 1, "new") | {"skip_unknown": True}
    assert client.post("/v1/outcomes", json=alone).json()["new"] == 0
    known = outcome("uma", 1) | {"skip_unknown": True}
    assert client.post("/v1/outcomes", json=known).json()["skipped"] == []


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("decisions", {}, "either key or keys"),
        ("decisions", {"key": "a", "keys": []}, "either key or keys"),
        ("decisions", {"key": ""}, "key: a key must have 1 to 500 bytes, got ''"),
        ("decisions", {"key": None}, "key must be text or an integer, got None"),
        ("decisions", {"key": True}, "key must be text or an integer, got True"),
        ("decisions", {"keys": ["a", 1.5]}, "keys[1] must be text or an integer, got 1.5"),
        ("decisions", {"keys": "ann"}, "keys must be a list of at most 1,000, got str"),
        ("decisions", {"keys": ["a"] * 1001}, "at most 1,000, got 1,001"),
        ("decisions", {"key": "a", "user": "b"}, "may have key, keys, got 'user'"),
        ("outcomes", {}, "key of the body must be text"),
        ("outcomes", {"key": "a", "losses": {"complaint": 0}}, '"old" or "new"'),
        ("outcomes", outcome("a", system="both"), "got 'both'"),
        ("outcomes", outcome("a", 3), "from 0 to 1, got 3: is it a percentage? 3 % is 0.03"),
        (
            "outcomes",
            outcome("a", True),
            "a number from 0 to 1, got true: send 1 for the harm",
        ),
        ("outcomes", outcome("a") | {"losses": {}}, "some of ['complaint'], got {}"),
        ("outcomes", outcome("a") | {"losses": {"harm": 1}}, "got {'harm': 1}"),
        ("outcomes", outcome("a") | {"loss": 1}, "got 'loss'"),
        ("outcomes", outcome("a") | {"keep_first": 1}, "keep_first must be true or false, got 1"),
        ("outcomes", {"outcomes": [3]}, "outcomes[0] must be an object, got int"),
        ("outcomes", outcome("a") | {"skip_unknown": "x"}, "skip_unknown must be true or false"),
        (
            "outcomes",
            {"outcomes": [outcome("b"), outcome("a"), outcome("a", 1)]},
            "key 'a' has two outcomes that differ, {'complaint': 0.0} and {'complaint': 1.0}",
        ),
    ],
)
def test_errors_name_what_is_wrong(client, path, body, message):
    found = client.post(f"/v1/{path}", json=body)
    assert found.status_code == 400
    assert found.json()["error"]["code"] == "invalid"
    assert message in found.json()["error"]["message"]


def test_outcomes_of_a_request_have_the_same_losses(tmp_path):
    release = {"guardrails": {"slow": 0.1, "wrong": 0.1}, "old": None}
    with running(settings(tmp_path / "release.db", release=release)) as client:
        client.post("/v1/decisions", json={"keys": ["a", "b"]})
        mixed = [
            {"key": "a", "system": "old", "losses": {"slow": 0}},
            {"key": "b", "system": "old", "losses": {"wrong": 0}},
        ]
        found = client.post("/v1/outcomes", json={"outcomes": mixed})
        assert found.status_code == 400
        assert "send them separately" in found.json()["error"]["message"]
        for each in mixed:
            assert client.post("/v1/outcomes", json=each).json() == {"new": 1, "without_row": 0}
        status = client.get("/v1/status").json()
        assert list(status["guardrails"]) == ["slow", "wrong"]
        assert status["share"] == 0


def test_the_status_says_what_holds(client):
    found = client.get("/v1/status").json()
    assert found["flag"] == "release"
    assert 0 < found["share"] == found["step"]["computed_share"] < 0.02
    assert found["step"]["number"] == 1
    assert found["alarm"] is None
    assert found["store_available"] is True
    limit = found["guardrails"]["complaint"]
    assert limit["tolerated"] == 0.02
    assert "alpha" not in limit
    assert 0.02 < limit["promise"] < 0.021
    assert limit["missing_outcomes"] == {"old": 0, "new": 0}
    assert found["step"]["why"] == WITHOUT_ROWS
    assert found["state"].startswith("the new system has 0.961% of the keys: so small that even")


@pytest.mark.parametrize(
    ("length", "until"),
    [
        ({"step_duration": 43_200.0}, r"\d{4}-\d\d-\d\d \d\d:\d\d UTC"),
        ({"keys_per_step": 1000}, "1,000 keys have come"),
        ({}, "somebody ends the step"),
    ],
)
def test_the_first_step_without_a_log_collects_rows_and_is_no_failure(tmp_path, length, until):
    given = settings(tmp_path / "release.db", release={"old": None, **length})
    with running(given) as client:
        client.post("/v1/decisions", json={"key": "ann"})
        for _ in tries():
            found = client.get("/v1/status").json()
            if found["step"]["keys"] == 1:
                break
    said = "collecting rows of the old system until {} \\(1 so far\\); the new one has no keys"
    assert re.fullmatch(said.format(until), found["state"])
    assert found["step"]["why"].startswith("this step collects rows of the old system")
    ends = found["step"]["ends"]
    if "step_duration" in length:
        lasts = datetime.fromisoformat(ends) - datetime.fromisoformat(found["step"]["begun"])
        assert lasts.total_seconds() == 43_200
    else:
        assert ends is None


def test_the_status_says_which_outcomes_are_missing(tmp_path):
    release = {"guardrails": {"complaint": 0.4}, "old": {"complaint": ArmCounts(10_000, 0.0)}}
    with running(settings(tmp_path / "release.db", release=release)) as client:
        keys = [f"user {k}" for k in range(50)]
        client.post("/v1/decisions", json={"keys": keys})
        client.post("/v1/advance", json={"step": 1, "reason": "a test"})
        found = client.get("/v1/status").json()
        missing = found["guardrails"]["complaint"]["missing_outcomes"]
        assert missing["old"] == 0 < missing["new"]
        assert f"{missing['new']} of them without an outcome (counted as 1)" in found["state"]
        metrics = client.get("/metrics").text
    labels = '{guardrail="complaint",system="new"}'
    assert f"tether_outcomes_missing{labels} {float(missing['new'])}" in metrics
    assert f"tether_share_rows{labels} {float(missing['new'])}" in metrics
