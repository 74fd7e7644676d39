"""Batches of decisions, and answers in time."""

import asyncio
import threading

from tether.rounds.errors import StoreError
from tether.service.decisions import decision_batches
from tether.service.decisions.decision_batches import KEYS_PER_CALL, DecisionBatches


class Store:
    """Answers when it is told to."""

    def __init__(self):
        self.calls, self.may_answer, self.error = [], threading.Event(), None
        self.may_answer.set()

    def assign(self, keys, is_wanted):
        self.calls.append(list(keys))
        self.may_answer.wait(30)
        if not is_wanted():
            return [None] * len(keys)
        if self.error is not None:
            raise self.error
        return [key.decode() for key in keys]


def run(test, store, answer_within=30.0, keep=None):
    async def main():
        batches = DecisionBatches(store.assign, answer_within=answer_within, keep=keep)
        try:
            return await test(batches)
        finally:
            store.may_answer.set()
            await batches.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


async def asked(batches, store):
    """A request for "a" that the store has, and does not answer before it may."""
    store.may_answer.clear()
    first = asyncio.create_task(batches.decide(named("a")))
    while not store.calls:
        await asyncio.sleep(0.001)
    return first


def named(*names):
    return [name.encode() for name in names]


def test_requests_that_wait_share_a_call_and_each_has_its_part():
    store = Store()

    async def test(batches):
        first = await asked(batches, store)
        others = [asyncio.create_task(batches.decide(named(f"{n}", f"{n}b"))) for n in range(40)]
        await asyncio.sleep(0)
        store.may_answer.set()
        assert await first == ["a"]
        assert await asyncio.gather(*others) == [[f"{n}", f"{n}b"] for n in range(40)]

    run(test, store)
    assert [len(each) for each in store.calls] == [1, 80]


def test_a_call_has_so_many_keys_unless_one_request_has_more():
    store, half = Store(), named(*["x"] * (KEYS_PER_CALL // 2 + 1))

    async def test(batches):
        sent = [half, half, named("a"), half * 4]
        assert await asyncio.gather(*map(batches.decide, sent)) == [
            [key.decode() for key in keys] for keys in sent
        ]

    run(test, store)
    assert [len(each) for each in store.calls] == [501, 502, 2004]


def test_a_frozen_store_is_not_waited_for(caplog):
    store = Store()

    async def test(batches):
        store.may_answer.clear()
        assert await batches.decide(named("a", "b")) == [None, None]
        while not batches.is_lost:
            assert await batches.decide(named("b")) == [None]
        for _ in range(100):  # at once
            waits = asyncio.create_task(batches.decide(named("c")))
            await asyncio.sleep(0)
            assert not batches._waiting
            assert await waits == [None]
        store.may_answer.set()
        while await batches.decide(named("d")) != ["d"]:
            await asyncio.sleep(0.001)
        assert not batches.is_lost

    run(test, store, answer_within=0.02)
    assert store.calls[0] == named("a", "b")
    assert not any(b"c" in each for each in store.calls)
    assert "decisions are not stored" in caplog.text


def test_a_store_that_is_only_busy_is_waited_for():
    """Requests that come while a call is overdue have a wait of their own, and are stored."""
    store = Store()

    async def test(batches):
        batches._answer_within = 0.02
        first = await asked(batches, store)
        assert await first == [None]
        batches._answer_within = 30.0
        second = asyncio.create_task(batches.decide(named("b")))
        await asyncio.sleep(0)
        assert not second.done()
        store.may_answer.set()
        assert await second == ["b"]

    run(test, store)


def test_a_lost_store_is_tried_again_by_one_request_at_a_time():
    store = Store()

    async def test(batches):
        store.error = StoreError("no route")
        assert await batches.decide(named("a")) == [None]
        assert batches.is_lost
        store.may_answer.clear()
        probe = asyncio.create_task(batches.decide(named("b")))
        while len(store.calls) < 2:
            await asyncio.sleep(0.001)
        assert await batches.decide(named("c")) == [None]
        store.error = None
        store.may_answer.set()
        assert await probe == ["b"]
        assert await batches.decide(named("d")) == ["d"]

    run(test, store)
    assert store.calls == [named("a"), named("b"), named("d")]


def test_a_store_that_was_written_otherwise_is_believed_to_be_back():
    store = Store()

    async def test(batches):
        store.error = StoreError("no route")
        assert await batches.decide(named("a")) == [None]
        assert batches.is_lost
        await asyncio.to_thread(batches.note_recovery)
        await asyncio.sleep(0)
        assert not batches.is_lost

    run(test, store)


def test_what_is_answered_without_the_store_is_kept_first():
    store, kept, may_keep = Store(), [], threading.Event()
    store.error = StoreError("no route")

    def keep(keys):
        assert may_keep.wait(30)
        kept.append(list(keys))

    async def test(batches):
        waits = [asyncio.create_task(batches.decide(named(name))) for name in "abc"]
        await asyncio.sleep(0.02)
        assert not any(each.done() for each in waits)
        late = asyncio.create_task(batches.decide(named("d")))
        await asyncio.sleep(0.01)
        may_keep.set()
        assert await asyncio.gather(*waits, late) == [[None]] * 4

    run(test, store, keep=keep)
    assert kept == [named("a", "b", "c"), named("d")]


def test_a_disk_that_hangs_or_fails_delays_no_answer(caplog):
    store, may_keep = Store(), threading.Event()
    store.error = StoreError("no route")

    def keep(keys):
        assert may_keep.wait(30)
        raise StoreError("the disk is full")

    async def test(batches):
        assert await batches.decide(named("a")) == [None]
        may_keep.set()
        assert await batches.decide(named("b")) == [None]

    run(test, store, answer_within=0.02, keep=keep)
    assert "are not kept either: the disk is full" in caplog.text


def test_requests_that_were_given_up_are_not_asked_for_later():
    store = Store()

    async def test(batches):
        first = await asked(batches, store)
        second = asyncio.create_task(batches.decide(named("b")))
        assert (await first, await second) == ([None], [None])
        store.may_answer.set()
        while await batches.decide(named("c")) != ["c"]:
            await asyncio.sleep(0.001)

    run(test, store, answer_within=0.02)
    assert named("b") not in store.calls


def test_what_waits_at_the_end_is_answered():
    store = Store()

    async def test(batches):
        first = await asked(batches, store)
        second = asyncio.create_task(batches.decide(named("b")))
        await asyncio.sleep(0)
        closing = asyncio.create_task(batches.close())
        assert await second == [None]
        store.may_answer.set()
        await closing
        assert await first == ["a"]

    run(test, store)


def test_errors_are_answers_without_the_store(caplog):
    store = Store()

    async def test(batches):
        for error in (StoreError("no route"), ValueError("a bug")):
            store.error = error
            assert await batches.decide(named("a")) == [None]
        store.error = None
        assert await batches.decide(named("a")) == ["a"]

    run(test, store)
    assert "no route" in caplog.text
    assert "ValueError: a bug" in caplog.text


def test_too_many_waiting_calls_are_answered_at_once(monkeypatch):
    monkeypatch.setattr(decision_batches, "MAX_CALLS_WAITING", 2)
    store, whole = Store(), named(*["x"] * KEYS_PER_CALL)

    async def test(batches):
        first = await asked(batches, store)
        waiting = [asyncio.create_task(batches.decide(whole)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await batches.decide(whole) == [None] * KEYS_PER_CALL
        store.may_answer.set()
        assert await first == ["a"]
        assert [len(each) for each in await asyncio.gather(*waiting)] == [KEYS_PER_CALL] * 2

    run(test, store)


def test_a_client_that_leaves_does_not_disturb_the_others():
    store = Store()

    async def test(batches):
        store.may_answer.clear()
        gone = asyncio.create_task(batches.decide(named("a")))
        stays = asyncio.create_task(batches.decide(named("b")))
        while not store.calls:
            await asyncio.sleep(0.001)
        gone.cancel()
        store.may_answer.set()
        assert await stays == ["b"]

    run(test, store)


def test_a_call_is_told_when_nobody_waits_for_it_any_more():
    store, stored = Store(), []

    def assign(keys, is_wanted):
        found = Store.assign(store, keys, is_wanted)
        stored.extend(key for key, system in zip(keys, found, strict=True) if system)
        return found

    async def test(batches):
        batches._assign = assign
        first = await asked(batches, store)
        assert await first == [None]
        outcome = asyncio.create_task(batches.settle(named("b", "a"), 30))
        await batches.settle(named("b"), 30)  # another key waits for nothing
        await asyncio.sleep(0.01)
        assert not outcome.done()
        store.may_answer.set()
        await outcome
        assert not batches.is_lost
        await batches.settle(named("a"), 30)
        batches._answer_within = 30
        assert await batches.decide(named("c")) == ["c"]

    run(test, store, answer_within=0.01)
    assert stored == [b"c"]
