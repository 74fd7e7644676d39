"""Failures are all counted, and logged once in a burst."""

import logging

from prometheus_client import CollectorRegistry

from tether.service.gateway.gateway_metrics import GatewayMetrics, RareLog


def test_a_burst_is_one_line_and_the_next_line_has_what_was_left_out(caplog):
    now = 100.0
    rare = RareLog("it fails", clock=lambda: now)
    caplog.set_level(logging.WARNING, "tether.service")
    for _ in range(1_000):
        rare.note("slow")
    now = 160.0
    rare.note("garbled")
    assert [record.getMessage() for record in caplog.records] == ["it fails"] * 2
    assert caplog.records[0].fields == {"counts": {"slow": 1}}
    assert caplog.records[1].fields == {"counts": {"slow": 999, "garbled": 1}}


def test_upstreams_are_counted_apart():
    registry = CollectorRegistry()
    metrics = GatewayMetrics(registry)
    metrics.failure("new", "slow")
    metrics.first_byte("new", "old", 0.3)
    value = registry.get_sample_value
    labels = {"upstream": "new", "reason": "slow"}
    assert value("tether_upstream_failures_total", labels) == 1
    assert value("tether_gateway_answers_total", {"system": "new", "served": "old"}) == 1
    name, at_most = "tether_gateway_first_byte_seconds_bucket", {"system": "new", "le": "0.25"}
    assert value(name, at_most) == 0
    assert value(name, at_most | {"le": "0.5"}) == 1
