"""The limit of requests at a time against servers that are simulated in virtual time."""

import asyncio

import pytest

from tether.llm.server.concurrency_limit import (
    FIRST_CONCURRENCY,
    MAX_CONCURRENCY,
    ConcurrencyLimit,
)


class VirtualServer:
    """Answers the k-th of its requests after as many virtual seconds as its `seconds(k)` says.

    Time advances from one answer to the next, so that nothing depends on the machine.
    """

    def __init__(self, seconds, capacity=10**9):
        self.seconds, self.capacity = seconds, capacity
        self.now, self.busy, self.most_busy, self.refused = 0.0, 0, 0, 0
        self.asked = 0
        self.ends = []

    def clock(self):
        return self.now

    async def answer(self):
        """Whether a request was answered; after its time, in the order of the times."""
        if self.busy >= self.capacity:
            self.refused += 1
            return False
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        turn = asyncio.get_running_loop().create_future()
        self.asked += 1
        self.ends.append((self.now + self.seconds(self.busy), self.asked, turn))
        await turn
        self.busy -= 1
        return True

    async def run(self):
        """Let time pass until nothing is asked any more."""
        for _ in range(10**6):
            for _ in range(3):
                await asyncio.sleep(0)
            if not self.ends:
                return
            self.ends.sort()
            self.now, _, turn = self.ends.pop(0)
            turn.set_result(None)


def final_limit(server, requests=3000, fixed=None):
    limit = ConcurrencyLimit(fixed, clock=server.clock)

    async def request():
        async with limit:
            while not await server.answer():
                limit.overloaded()
                await asyncio.sleep(0)
            limit.answered()

    async def everything():
        tasks = [asyncio.create_task(request()) for _ in range(requests)]
        await server.run()
        await asyncio.gather(*tasks)

    asyncio.run(everything())
    return limit.limit


def test_a_fixed_limit_stays():
    server = VirtualServer(lambda busy: 1.0)
    assert final_limit(server, fixed=5) == server.most_busy == 5


def test_a_server_that_batches_gets_more_until_it_gains_nothing():
    """Up to 40 requests take the same time; beyond, each further one makes all slower."""
    found = final_limit(VirtualServer(lambda busy: max(1.0, busy / 40)))
    assert found == 64


def test_a_server_without_a_bound_gets_the_most():
    assert final_limit(VirtualServer(lambda busy: 1.0), requests=20_000) == MAX_CONCURRENCY


def test_a_server_that_serves_one_at_a_time_is_left_alone():
    found = final_limit(VirtualServer(lambda busy: 0.1 * busy))
    assert found <= 2 * FIRST_CONCURRENCY


def test_a_server_that_gets_slower_beyond_a_point_gets_less_again():
    found = final_limit(VirtualServer(lambda busy: 1.0 if busy <= 20 else busy**2 / 20))
    assert found == 16


def test_an_overloaded_server_gets_half():
    server = VirtualServer(lambda busy: 1.0, capacity=20)
    found = final_limit(server)
    assert found <= 30
    assert server.most_busy <= 20
    limit = ConcurrencyLimit()
    limit._under_way = FIRST_CONCURRENCY
    for _ in range(FIRST_CONCURRENCY):  # all that are under way are refused: once is enough
        limit.overloaded()
    assert limit.limit == FIRST_CONCURRENCY // 2


def test_a_request_that_is_cancelled_while_it_waits_gives_its_turn_to_the_next():
    limit = ConcurrencyLimit(1)

    async def everything():
        entered = []

        async def request(name, hold):
            async with limit:
                entered.append(name)
                await hold.wait()

        first, second = asyncio.Event(), asyncio.Event()
        one = asyncio.create_task(request("one", first))
        await asyncio.sleep(0)
        two = asyncio.create_task(request("two", second))
        three = asyncio.create_task(request("three", second))
        await asyncio.sleep(0)
        two.cancel()
        first.set()
        second.set()
        await asyncio.gather(one, three)
        with pytest.raises(asyncio.CancelledError):
            await two
        return entered

    assert asyncio.run(everything()) == ["one", "three"]
