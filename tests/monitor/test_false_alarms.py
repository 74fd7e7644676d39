"""What is promised, on many simulated streams; `python -m benchmarks.monitor` is the long run."""

import numpy as np
import pytest

from tether.monitor import RiskMonitor, ShiftMonitor
from tether.monitor.confidence_sequence import confidence_interval

STREAMS, STEPS = 1000, 1000
FALSE_ALARM_PROBABILITY = 0.05
ALLOWED = (
    FALSE_ALARM_PROBABILITY
    + 3 * (FALSE_ALARM_PROBABILITY * (1 - FALSE_ALARM_PROBABILITY) / STREAMS) ** 0.5
)


def provoked(rng, alpha):
    """A risk of alpha at every step, whose spread depends on what was lost just before."""
    losses = np.empty((STREAMS, STEPS))
    bad = np.zeros(STREAMS, dtype=bool)
    for step in range(STEPS):
        hit = rng.random(STREAMS) < np.where(bad, alpha, alpha / 0.2)
        losses[:, step] = np.where(bad, 1.0, 0.2) * hit
        bad = losses[:, step] > 0
    return losses


NULLS = {
    "0 or 1, at alpha": lambda rng, alpha: rng.random((STREAMS, STEPS)) < alpha,
    "0 or 1, below alpha": lambda rng, alpha: rng.random((STREAMS, STEPS)) < 0.8 * alpha,
    "beta, at alpha": lambda rng, alpha: rng.beta(alpha, 1 - alpha, size=(STREAMS, STEPS)),
    "provoked, at alpha": provoked,
}


@pytest.mark.parametrize("alpha", [0.02, 0.1])
@pytest.mark.parametrize("null", NULLS)
def test_false_alarms_of_the_risk_monitor(null, alpha):
    losses = NULLS[null](np.random.default_rng(11), alpha)
    alarms = sum(
        RiskMonitor(alpha, false_alarm_probability=FALSE_ALARM_PROBABILITY).update(stream).alarm
        for stream in losses
    )
    assert alarms / STREAMS <= ALLOWED


def test_a_risk_above_alpha_is_found():
    losses = np.random.default_rng(12).random((100, STEPS)) < 0.15
    assert sum(RiskMonitor(0.1).update(stream).alarm for stream in losses) >= 95


def test_the_interval_holds_at_all_times_for_a_risk_that_moves():
    rng = np.random.default_rng(13)
    steps = np.arange(1, STEPS + 1)
    risk = 0.2 + 0.15 * np.sin(steps / 100)
    losses = (rng.random((STREAMS, STEPS)) < risk).astype(float)
    totals = losses.cumsum(axis=1)
    guesses = (0.1 + totals - losses) / steps
    squares = ((losses - guesses) ** 2).cumsum(axis=1)
    times = np.unique(np.geomspace(1, STEPS, 60).astype(int)) - 1
    lower, upper = confidence_interval(
        steps[times], totals[:, times], squares[:, times], FALSE_ALARM_PROBABILITY
    )
    truth = (risk.cumsum() / steps)[times]
    missed = ((lower > truth) | (upper < truth)).any(axis=1).mean()
    assert missed <= ALLOWED
    assert (upper - lower)[:, -1].max() < 0.12


@pytest.mark.parametrize("levels", [None, 3], ids=["distinct scores", "many ties"])
def test_false_alarms_of_the_shift_monitor(levels):
    rng = np.random.default_rng(14)
    alarms = 0
    for _ in range(STREAMS):
        scores = rng.random(1100) if levels is None else rng.integers(0, levels, size=1100)
        alarms += (
            ShiftMonitor(scores[:100], FALSE_ALARM_PROBABILITY, rng=rng).update(scores[100:]).alarm
        )
    assert alarms / STREAMS <= ALLOWED
