"""Decisions, outcomes and the status as JSON."""

import threading

import pytest

from tests.service.running import running, settings
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
