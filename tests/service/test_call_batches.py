"""Requests that wait share a call, and each has its own answer."""

import asyncio
import threading

import pytest

from tether.service import call_batches
from tether.service.api_errors import ApiError
from tether.service.call_batches import CallBatches


class Calls:
    def __init__(self):
        self.made, self.may_answer = [], threading.Event()
        self.may_answer.set()

    def __call__(self, items):
        self.made.append(list(items))
        self.may_answer.wait(30)
        if "all" in items:
            raise OSError("all of them")
        return [ValueError(item) if item == "bad" else item.upper() for item in items]


def run(test, calls, at_once=1):
    async def main():
        batches = CallBatches(calls, at_once=at_once, name="test")
        try:
            return await test(batches)
        finally:
            calls.may_answer.set()
            await batches.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def test_what_comes_meanwhile_shares_the_next_call():
    calls = Calls()

    async def test(batches):
        calls.may_answer.clear()
        first = asyncio.create_task(batches.ask("a"))
        await until(lambda: calls.made)
        others = [asyncio.create_task(batches.ask(each)) for each in ("b", "bad", "c")]
        await asyncio.sleep(0)
        calls.may_answer.set()
        assert await first == "A"
        answers = await asyncio.gather(*others, return_exceptions=True)
        assert answers[0::2] == ["B", "C"]
        assert isinstance(answers[1], ValueError)

    run(test, calls)
    assert calls.made == [["a"], ["b", "bad", "c"]]


def test_several_calls_at_once():
    calls = Calls()

    async def test(batches):
        calls.may_answer.clear()
        first = asyncio.create_task(batches.ask("a"))
        await until(lambda: len(calls.made) == 1)
        second = asyncio.create_task(batches.ask("b"))
        await until(lambda: len(calls.made) == 2)  # it does not wait for the first
        calls.may_answer.set()
        assert await asyncio.gather(first, second) == ["A", "B"]

    run(test, calls, at_once=2)


def test_a_call_that_fails_fails_for_all_and_the_next_goes_on():
    calls = Calls()

    async def test(batches):
        with pytest.raises(OSError, match="all of them"):
            await batches.ask("all")
        assert await batches.ask("a") == "A"

    run(test, calls)


def test_requests_beyond_the_limit_are_refused_and_those_of_clients_that_have_gone_left_out(
    monkeypatch,
):
    monkeypatch.setattr(call_batches, "MAX_REQUESTS_WAITING", 2)
    calls = Calls()

    async def test(batches):
        calls.may_answer.clear()
        first = asyncio.create_task(batches.ask("a"))
        await until(lambda: calls.made)
        gone, stays = (asyncio.create_task(batches.ask(each)) for each in "bc")
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="too many"):
            await batches.ask("d")
        gone.cancel()
        await asyncio.sleep(0)
        calls.may_answer.set()
        assert await asyncio.gather(first, stays) == ["A", "C"]

    run(test, calls)
    assert calls.made == [["a"], ["c"]]


def test_closing_refuses_what_waits():
    calls = Calls()

    async def test(batches):
        calls.may_answer.clear()
        first = asyncio.create_task(batches.ask("a"))
        await until(lambda: calls.made)
        second = asyncio.create_task(batches.ask("b"))
        await asyncio.sleep(0)
        calls.may_answer.set()
        await batches.close()
        assert await first == "A"
        with pytest.raises(ApiError, match="shutting down"):
            await second

    run(test, calls)
