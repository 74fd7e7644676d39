"""Mean losses and missing outcomes as metrics."""

import math

from prometheus_client import CollectorRegistry

from tether.release import ArmCounts
from tether.rounds.history import Estimate
from tether.service.operating.loss_metrics import LossMetrics


def test_a_system_without_losses_has_no_mean_and_no_outcomes():
    registry = CollectorRegistry()
    metrics = LossMetrics(registry)
    metrics.present({"new": {"harm": Estimate(3, 0.5, 0.1, 0.9)}})  # nothing is known of it yet
    counted = {("old", "harm"): ArmCounts(9, 1.0, 2), ("new", "harm"): ArmCounts(4, 0.0)}
    metrics.counted(counted)
    metrics.present({"new": {"harm": Estimate(3, 0.5, 0.1, 0.9)}, "old": {}})

    def value(name, system):
        return registry.get_sample_value(name, {"system": system, "guardrail": "harm"})

    assert (value("tether_share_rows", "old"), value("tether_outcomes_missing", "old")) == (9, 2)
    assert (value("tether_share_rows", "new"), value("tether_outcomes_missing", "new")) == (4, 0)
    assert (value("tether_loss_mean", "new"), value("tether_step_outcomes", "new")) == (0.5, 3)
    assert math.isnan(value("tether_loss_mean", "old"))
    assert value("tether_step_outcomes", "old") == 0
