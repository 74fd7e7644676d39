"""Mean losses over several steps, with their intervals."""

import numpy as np
import pytest

from tether.monitor import RiskMonitor
from tether.rounds.history_reader import loss_estimate
from tether.rounds.limits import Limit
from tether.rounds.releases.pooled_losses import pooled_losses

LIMITS = {"x": Limit(0.1, 2.0, 0.2)}


def estimate(losses):
    monitor = RiskMonitor(0.1, 2.0, 0.05)
    monitor.update(losses)
    return loss_estimate(monitor)


def test_one_step_has_its_own_estimate_and_nothing_has_none():
    found = estimate([0.0, 2.0, 0.5] * 30)
    (pooled,) = pooled_losses([{}, {"x": found}], LIMITS).values()
    for name in ("count", "mean", "lower", "upper", "standard_error"):
        assert getattr(pooled, name) == pytest.approx(getattr(found, name))
    assert pooled_losses([{}, {}], LIMITS) == {}


def test_several_steps_are_narrower_than_each_and_cover_the_truth():
    """The intervals of 300 releases of eight steps: at most 5 % may miss their mean."""
    generator, missed = np.random.default_rng(7), 0
    for _ in range(300):
        steps = [{"x": estimate(2.0 * (generator.random(50) < 0.2))} for _ in range(8)]
        pooled = pooled_losses(steps, LIMITS)["x"]
        assert pooled.count == 400
        assert pooled.mean == pytest.approx(np.mean([each["x"].mean for each in steps]))
        widths = [each["x"].upper - each["x"].lower for each in steps]
        assert pooled.upper - pooled.lower < min(widths)
        missed += not pooled.lower <= 0.4 <= pooled.upper
    assert missed <= 0.05 * 300
