"""A service whose store fails: an answer in time, and nothing lost that was answered."""

import asyncio
from threading import Event, Thread

import pytest

from tests.service.running import running, settings, tries
from tether.rounds import read_release, verify_store
from tether.rounds.releases.beginning import StepKeeper
from tether.rounds.releases.served_release import ServedRelease
from tether.service import service as service_module
from tether.service.api_errors import ApiError
from tether.service.service import Service
from tether.service.settings.service_settings import ServiceLimits


def test_decisions_go_on_while_another_program_holds_the_store(tmp_path):
    """A store that is locked: keys have the old system without a row, and later their own."""
    store = tmp_path / "release.db"
    limits = ServiceLimits(answer_within=0.05, store_deadline=1.0)
    keys = {"keys": [f"user {number}" for number in range(20)]}
    release = {"guardrails": {"complaint": 0.5}}
    with running(settings(store, release=release, limits=limits)) as client:
        with ServedRelease(str(store), deadline=60) as other:
            with other._store.writing(exclusive=True):
                held = [client.post("/v1/decisions", json=keys).json() for _ in range(3)]
                for _ in tries():  # it can be read, but not written
                    if not client.get("/readyz").json()["store"]:
                        break
                    client.post("/v1/decisions", json=keys)
                metrics, status = client.get("/metrics").text, client.get("/v1/status").json()
                assert "tether_store_available 0.0" in metrics
                assert "tether_share 0.0" in metrics  # nobody has the new system now
                assert 'tether_promise{guardrail="complaint"} NaN' in metrics
                assert not status["store_available"]
                assert status["state"] == status["warnings"][0]
                assert status["state"].startswith(
                    "the store is unavailable: the old system answers all keys; when it last "
                    "answered: the new system has 49.470% of the keys"
                )
                assert status["share"] == 0 < status["step"]["computed_share"]
                assert status["guardrails"]["complaint"]["promise"] is None
                flag = client.post(
                    "/ofrep/v1/evaluate/flags/release", json={"context": {"targetingKey": "x"}}
                ).json()
                lost = client.post(
                    "/v1/outcomes", json={"key": "a", "system": "old", "losses": {"complaint": 0}}
                )
        for answer in held:
            assert all(
                (each["system"], each["stored"]) == ("old", False) for each in answer["decisions"]
            )
        assert (flag["variant"], flag["reason"]) == ("old", "UNKNOWN")
        assert lost.status_code in (200, 503)  # nothing is known of "a", which needs no writing
        for _ in tries():
            after = client.post("/v1/decisions", json=keys).json()["decisions"]
            if all(each["stored"] for each in after):
                break
        for _ in tries():
            if client.get("/readyz").json()["store"]:
                break
            client.post("/v1/decisions", json=keys)
        assert {each["system"] for each in after} == {"old", "new"}
        for _ in tries():  # the share is back with the store
            if client.get("/v1/status").json()["share"] > 0.4:
                break
        for _ in tries():
            if "tether_share 0.0" not in client.get("/metrics").text:
                break
        assert client.get("/metrics").text.count('stored="false"') == 2
    assert verify_store(store).ok


def test_no_decision_waits_for_the_next_step(tmp_path, monkeypatch):
    """What comes while it begins still belongs to the present step, and is stored."""
    may_begin, begins = Event(), StepKeeper.advance_if_due

    def begin(steps):
        assert may_begin.wait(60)
        begins(steps)

    store, release = tmp_path / "release.db", {"guardrails": {"complaint": 0.5}}
    release |= {"keys_per_step": 5, "max_silence": None}
    with running(settings(store, release=release)) as client:
        monkeypatch.setattr(StepKeeper, "advance_if_due", begin)
        for first in range(0, 30, 3):
            keys = {"keys": list(range(first, first + 3))}
            found = client.post("/v1/decisions", json=keys).json()["decisions"]
            assert all(each["stored"] for each in found)
        may_begin.set()
        for _ in tries():
            if client.get("/v1/status").json()["step"]["number"] == 2:
                break
        may_begin.clear()
        client.post("/v1/halt", json={"reason": "a test"})
        act = Thread(target=client.post, args=["/v1/resume"], kwargs={"json": {"reason": "over"}})
        act.start()
        for _ in tries():  # an alarm that is cleared: the ramp begins anew with the next step
            if read_release(store).alarm is None:
                break
        found = client.post("/v1/decisions", json={"keys": list(range(30, 60))}).json()
        assert {(each["system"], each["stored"]) for each in found["decisions"]} == {("old", True)}
        may_begin.set()
        act.join()
        for _ in tries():
            if client.get("/v1/status").json()["step"]["number"] == 3:
                break
    first, second, _ = read_release(store).steps
    assert (first.old.rows + first.new.rows, second.old.rows, second.new.rows) == (30, 30, 0)
    assert verify_store(store).ok


def test_calls_beyond_the_limit_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(service_module, "CALLS_WAITING", 0)
    monkeypatch.setattr(service_module, "CALLS_AT_ONCE", 1)

    async def main():
        service = Service(settings(tmp_path / "release.db"))
        try:
            first = asyncio.create_task(service.call(lambda: 3))
            await asyncio.sleep(0)
            with pytest.raises(ApiError, match="too many requests wait") as found:
                await service.call(lambda: 4)
            assert found.value.status == 503
            assert await first == 3
        finally:
            await service.close()
        with pytest.raises(RuntimeError):
            await service.call(lambda: 5)

    asyncio.run(asyncio.wait_for(main(), 60))
