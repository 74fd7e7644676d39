"""Losses that wait for the store: none is lost while there is memory, and none delays anything."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from tests.service.gateway.upstreams import LONG
from tether.rounds.errors import StoreError
from tether.service.gateway import loss_reports
from tether.service.gateway.gateway_metrics import GatewayMetrics
from tether.service.gateway.loss_reports import LossReport, LossReports


class Store:
    """Takes reports, unless it is away; refuses those of "bad"."""

    def __init__(self):
        self.is_away, self.calls, self.stored = False, 0, []

    def observe(self, reports):
        self.calls += 1
        if self.is_away:
            raise StoreError("away")
        keys = [each.key for each in reports]
        assert len(set(keys)) == len(keys)
        if b"bad" in keys:
            raise ValueError("refused")
        self.stored += reports


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(loss_reports, "FIRST_REPORT_PAUSE", 0.01)
    monkeypatch.setattr(loss_reports, "REPORTS_COLLECTED_FOR", 0.01)


def report(key, system="new", loss=0.0):
    return LossReport(key, system, {"failure": loss})


def run(use, **options):
    """What `use(reports, store)` returns, and the metrics after the end."""
    store, registry = Store(), CollectorRegistry()

    async def main():
        reports = LossReports(store.observe, GatewayMetrics(registry), **options)
        reports.start()
        try:
            return await use(reports, store)
        finally:
            await reports.close()

    asyncio.run(asyncio.wait_for(main(), LONG))
    dropped = registry.get_sample_value("tether_gateway_reports_dropped_total")
    return store, dropped, registry.get_sample_value("tether_gateway_reports_waiting")


async def until(is_so):
    while not is_so():
        await asyncio.sleep(0.002)


def test_reports_wait_while_the_store_is_away_and_keep_their_order():
    async def use(reports, store):
        store.is_away = True
        given = [report(b"a"), report(b"b"), report(b"a", "old", 1.0), report(b"a")]
        for each in given:
            reports.add(each)
        await until(lambda: store.calls > 3)
        assert not store.stored
        store.is_away = False
        await until(lambda: len(store.stored) == 4)
        assert store.stored == given

    assert run(use)[1:] == (0, 0)


def test_what_still_waits_is_stored_at_the_end():
    async def use(reports, store):
        for number in range(1_200):
            reports.add(report(b"%d" % number))

    store, dropped, waiting = run(use)
    assert (len(store.stored), store.calls, dropped, waiting) == (1_200, 3, 0, 0)


def test_beyond_the_limit_and_at_the_end_reports_are_given_up_and_counted():
    async def use(reports, store):
        store.is_away = True
        for number in range(5):
            reports.add(report(b"%d" % number))

    store, dropped, _ = run(use, most=3)
    assert (store.stored, dropped) == ([], 5)


def test_one_that_is_refused_does_not_take_others_with_it():
    async def use(reports, store):
        for key in (b"a", b"bad", b"c"):
            reports.add(report(key))
        await until(lambda: len(store.stored) == 2)

    store, dropped, _ = run(use)
    assert [each.key for each in store.stored] == [b"a", b"c"]
    assert dropped == 1
