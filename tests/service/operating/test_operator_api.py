"""What people do over HTTP, and what is stored of it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from tests.service.running import bearer, running, settings
from tether.release import ArmCounts
from tether.rounds import read_release, verify_store
from tether.rounds.releases.observing import ObservedKeys
from tether.rounds.releases.served_release import ServedRelease
from tether.service import ApiKeys, add_key
from tether.service import service as service_module

LOG = {"complaint": ArmCounts(10_000, 0.0)}


def test_acts_are_stored_with_the_name_of_the_key_and_reach_other_services(tmp_path):
    store, file = tmp_path / "release.db", tmp_path / "keys.json"
    ann, bob = (add_key(file, name, ["operate", "decide", "read"]) for name in ("ann", "bob"))
    release = {"guardrails": {"complaint": 0.5}, "old": LOG}
    given = settings(store, release=release, keys=ApiKeys.read(file))
    keys = {"keys": [f"user {number}" for number in range(30)]}

    def systems(client):
        found = client.post("/v1/decisions", json=keys, headers=bearer(ann)).json()["decisions"]
        assert all(each["stored"] for each in found)
        return {each["system"] for each in found}

    with running(given) as one, running(given) as other:
        assert systems(one) == systems(other) == {"old", "new"}
        halted = one.post("/v1/halt", json={"reason": "a rumour"}, headers=bearer(ann))
        assert halted.json() == {"halted": True}
        assert systems(other) == {"old"}
        status = one.get("/v1/status", headers=bearer(bob)).json()
        assert (status["share"], status["alarm"]["monitor"]) == (0, "halt")
        assert "ann" in status["alarm"]["message"]
        assert status["alarm"]["step"] == 1
        assert "round" not in status["alarm"]
        resumed = other.post("/v1/resume", json={"reason": "it was none"}, headers=bearer(bob))
        assert resumed.json() == {"halted": False}
        assert systems(one) == {"old", "new"}
        again = other.post("/v1/resume", json={"reason": "again"}, headers=bearer(bob))
        assert again.status_code == 409
        number = other.get("/v1/status", headers=bearer(bob)).json()["step"]["number"]
        end = {"step": number, "reason": "every night"}
        ended = one.post("/v1/advance", json=end, headers=bearer(bob))
        assert ended.json()["step"] == number + 1
        assert one.post("/v1/advance", json=end, headers=bearer(bob)).status_code == 409
        for bad in ({"reason": "x"}, {"step": True, "reason": "x"}, {"step": 1, "reason": " "}):
            assert one.post("/v1/advance", json=bad, headers=bearer(bob)).status_code == 400
        assert one.post("/v1/halt", json={}, headers=bearer(bob)).status_code == 400
    history = read_release(store)
    assert [(each.act, each.actor, each.reason) for each in history.audit] == [
        ("halt", "ann", "a rumour"),
        ("resume", "bob", "it was none"),
        ("advance", "bob", "every night"),
    ]
    assert history.audit[-1].subject == history.steps[-1].number == number + 1
    assert verify_store(store).ok


def test_a_halt_does_not_wait_for_outcomes(tmp_path, monkeypatch):
    """As many calls as may wait for the store do so, and none of them ends before the halt."""
    monkeypatch.setattr(service_module, "CALLS_AT_ONCE", 1)
    monkeypatch.setattr(service_module, "CALLS_WAITING", 0)
    begun, halted = Event(), Event()

    def observe(*arguments, **options):
        begun.set()
        return ObservedKeys(int(halted.wait(20)), 0, {})

    monkeypatch.setattr(ServedRelease, "observe_counted", observe)
    outcome = {"key": "ann", "system": "old", "losses": {"complaint": 0}}
    with running(settings(tmp_path / "release.db")) as client, ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(client.post, "/v1/outcomes", json=outcome)
        assert begun.wait(20)
        assert client.post("/v1/outcomes", json=outcome).status_code == 503
        found = client.post("/v1/halt", json={"reason": "now"})
        halted.set()
        assert (found.status_code, waiting.result().json()) == (200, {"new": 1, "without_row": 0})
