"""Simulated releases through the class itself: the mean risk of every step is within alpha."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.scale import scaled
from tether.release import ArmCounts
from tether.rounds.releases.arm_rows import ArmRows

OLD, ALPHA, LOG_ROWS, KEYS, STEPS = 0.1, 0.2, 150, 60, 5
RUNS = scaled(12)
"""As many as show that alpha breaks where unknown losses are left out."""


def risks_of_steps(new_risk, seed, *, late=(0.0, 0.0), promise=False):
    """The expected loss of each step of one release, given its share.

    Of the losses of 1, and of 0, these parts never arrive.
    """
    rng = np.random.default_rng([seed, int(1000 * new_risk)])
    log = {"harm": ArmCounts(LOG_ROWS, float(rng.binomial(LOG_ROWS, OLD)))}
    found = []
    with tether.Release("sqlite://", {"harm": ALPHA}, old=log, promise=promise) as release:
        for step in range(STEPS):
            share = release.share
            found.append((1 - share) * OLD + share * new_risk)
            keys = [f"{seed} {step} {k}" for k in range(KEYS)]
            systems = np.array(release.assign(keys))
            losses = rng.random(KEYS) < np.where(systems == "new", new_risk, OLD)
            arrives = rng.random(KEYS) >= np.where(losses, *late)
            if arrives.any():
                chosen = np.flatnonzero(arrives).tolist()
                release.observe([keys[k] for k in chosen], losses[arrives].astype(float))
            release.advance()
    return found


def simulate(new_risk, **given):
    """The mean risk of each step, and its standard error."""
    risks = np.array([risks_of_steps(new_risk, seed, **given) for seed in range(RUNS)])
    return risks.mean(axis=0), risks.std(axis=0, ddof=1) / np.sqrt(RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("new_risk", [0.05, 0.35, 1.0])
def test_the_mean_risk_of_every_step_is_within_the_promise(new_risk):
    mean, error = simulate(new_risk, promise=True)
    assert (mean <= ALPHA + 3 * error).all()
    if new_risk < OLD:
        assert mean[-1] < 0.08  # it gets most of the keys


@pytest.mark.slow
def test_losses_that_never_arrive_do_not_break_alpha_but_leaving_them_out_does(monkeypatch):
    """The same measure sees a release break that does not count unknown losses as the bound."""
    mean, error = simulate(0.6, late=(0.9, 0.0))
    assert (mean <= ALPHA + 3 * error).all()
    right = ArmRows.counts

    def without_unknown(self, arms):
        return {
            name: ArmCounts(each.rows - each.pending, each.total)
            for name, each in right(self, arms).items()
        }

    monkeypatch.setattr(ArmRows, "counts", without_unknown)
    mean, error = simulate(0.6, late=(0.9, 0.0))
    assert (mean > ALPHA + 3 * error).any()
