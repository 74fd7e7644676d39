"""What people do over HTTP, and what is stored of it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

from tests.service.running import bearer, running, settings, tries
from tether.release import ArmCounts
from tether.rounds import read_release, verify_store
from tether.rounds.errors import StoreError
from tether.rounds.releases.observing import ObservedKeys
from tether.rounds.releases.served_release import ServedRelease
from tether.service import ApiKeys, add_key
from tether.service import service as service_module
from tether.service.settings.service_settings import ServiceLimits

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


def test_no_act_waits_for_a_step_that_is_computed(tmp_path, monkeypatch):
    """More acts than there are threads for them, and the step is computed until after the last."""
    begun, acted = Event(), Event()
    begin = ServedRelease.begin_due_step

    def compute(release):
        begun.set()
        return acted.wait(60) and begin(release)

    limits = ServiceLimits(answer_within=30.0, store_deadline=0.01)
    with running(settings(tmp_path / "release.db", limits=limits)) as client:
        with monkeypatch.context() as patch:
            patch.setattr(ServedRelease, "begin_due_step", compute)
            assert begun.wait(60)
            for number in range(service_module.ACTS_AT_ONCE + 1):
                for _ in tries():  # the store may take longer than its deadline
                    if client.post("/v1/halt", json={"reason": f"{number}"}).status_code == 200:
                        break
            acted.set()
        for _ in tries():
            if client.get("/v1/status").json()["alarm"]:
                break


def test_an_act_that_is_stored_is_answered_so(tmp_path, monkeypatch):
    """Also if what holds now cannot be read afterwards."""
    with running(settings(tmp_path / "release.db")) as client:
        monkeypatch.setattr(ServedRelease, "state", lambda release: 1 / 0)
        assert client.post("/v1/halt", json={"reason": "now"}).json() == {"halted": True}
    assert [each.act for each in read_release(tmp_path / "release.db").audit] == ["halt"]


def test_steps_that_end_by_themselves_are_not_ended_by_hand(tmp_path):
    given = settings(tmp_path / "release.db", release={"keys_per_step": 5})
    with running(given) as client:
        found = client.post("/v1/advance", json={"step": 1, "reason": "now"})
        assert found.status_code == 400
        assert "end by themselves, after 5 keys" in found.json()["error"]["message"]
        client.post("/v1/decisions", json={"keys": list(range(12))})
        for _ in tries():  # the follower begins the next one, and no request waits for it
            if client.get("/v1/status").json()["step"]["number"] == 2:
                break
    first, second = read_release(tmp_path / "release.db").steps
    assert (first.old.rows + first.new.rows, second.old.rows + second.new.rows) == (12, 0)


def test_a_halt_without_the_store_says_who_answers(tmp_path, monkeypatch):
    def lost(*arguments, **options):
        raise StoreError("no route")

    with running(settings(tmp_path / "release.db")) as client:
        monkeypatch.setattr(ServedRelease, "follow", lost)
        monkeypatch.setattr(ServedRelease, "halt", lost)
        for _ in tries():
            if not client.get("/v1/status").json()["store_available"]:
                break
        refused = client.post("/v1/halt", json={"reason": "a test"})
    assert refused.status_code == 503
    assert refused.json()["error"]["message"] == (
        "the store is unavailable, and the halt is not stored: the old system answers all keys "
        "until it is back, and not after that. Repeat the request until it is stored"
    )
