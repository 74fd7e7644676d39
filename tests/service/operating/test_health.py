"""Health, readiness, metrics and the schema."""

import math
import shutil
import subprocess

from prometheus_client.parser import text_string_to_metric_families

from tests.service.running import running, settings


def labels(system):
    return ("guardrail", "complaint"), ("system", system)


def test_metrics_say_what_happened(tmp_path):
    with running(settings(tmp_path / "release.db")) as client:
        client.post("/v1/decisions", json={"keys": ["ann", "bob"]})
        outcome = {"key": "ann", "system": "old", "losses": {"complaint": 0}}
        for _ in range(2):  # a repeat is no new loss
            client.post("/v1/outcomes", json=outcome)
        client.post("/v1/outcomes", json=outcome | {"key": "never asked"})
        client.post("/v1/decisions", json={"key": "ann"})  # comes back, and is no new row
        client.post("/v1/halt", json={"reason": "a test"})
        client.get("/nothing")
        found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(found.text)
        for sample in family.samples
    }
    assert samples["tether_decisions_total", ("stored", "true"), ("system", "old")] == 3
    assert samples[("tether_step_keys",)] == 2
    kinds = {"inverted", "exceeded", "unwatched", "closed", "missing", "stalled"}
    assert {samples["tether_warnings", ("kind", each)] for each in kinds} == {0}
    assert samples["tether_decisions_total", ("stored", "false"), ("system", "old")] == 0
    outcomes = {each: samples["tether_outcomes_total", *labels(each)] for each in ("old", "new")}
    assert outcomes == {"old": 1, "new": 0}
    assert samples[("tether_outcomes_without_row_total",)] == 1
    old, new = labels("old"), labels("new")
    assert samples["tether_loss_mean", *old] == 0
    assert math.isnan(samples["tether_loss_mean", *new])
    assert (samples["tether_step_outcomes", *old], samples["tether_step_outcomes", *new]) == (1, 0)
    assert samples["tether_operator_acts_total", ("act", "halt")] == 1
    assert samples[("tether_alarm_standing",)] == samples[("tether_store_available",)] == 1
    assert samples[("tether_share",)] == 0
    assert samples["tether_http_requests_total", ("route", "other"), ("status", "404")] == 1
    assert samples["tether_http_request_seconds_count", ("route", "/v1/decisions")] == 2
    if program := shutil.which("promtool"):
        checked = subprocess.run(
            [program, "check", "metrics"], input=found.content, capture_output=True
        )
        assert checked.returncode == 0, checked.stderr
