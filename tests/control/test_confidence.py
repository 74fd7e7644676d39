"""The certificate: its sequence against all betas and all bettors, and how often it is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.worlds import rise_and_fall
from scipy.stats import binom

from tests.control.test_proved import TableWorld, posed, several_losses
from tether.control.calibrate import calibrate
from tether.control.confidence import bettors, certify
from tether.control.log import Log
from tether.control.unbiased import unbiased_weights


def passing(problem, confidence):
    """The candidates, and at which of them all bettors, one after the other, have won enough."""
    weights, each = unbiased_weights(problem, "confidence"), problem.constraints[0]
    total = np.zeros(len(weights.t))
    for stake, log_share in zip(*bettors(each, len(problem.rows), 1 - confidence), strict=True):
        total += np.exp(log_share + weights.log_capitals(each, each.alpha, stake)[:, 0])
    return weights, total >= 1 / (1 - confidence)


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("rows", [60, 400])
def test_the_sequence_goes_on_as_long_as_all_bettors_together_win(family, rows):
    rng = np.random.default_rng(rows)
    for seed in range(4):
        problem = posed(TableWorld(seed, distance=2.0).log(rows, rng), family=family, alpha=0.09)
        weights, passed = passing(problem, 0.8)
        won = np.append(passed, False).argmin()
        assert certify(weights, rows, 0.8)["loss"] == weights.log_betas[won]


def test_betas_past_the_first_that_is_not_certified_do_not_count():
    world = replace(rise_and_fall(), view="tables")
    problem = posed(world.log(6000, np.random.default_rng(0))[0], alpha=0.12)
    weights, passed = passing(problem, 0.8)
    assert passed[[0, -1]].all()
    assert not passed.all()
    assert certify(weights, 6000, 0.8)["loss"] == weights.t[passed.argmin() - 1]


def test_capitals_are_products_of_factors_and_certify_zero_losses_as_few_rows_as_they_can():
    alpha, confidence = 0.1, 0.9
    for rows in (15, 22, 30, 60):
        problem = posed(TableWorld(0).log(rows, np.random.default_rng(0)), alpha=alpha)
        problem = replace(
            problem, rows=type(problem.rows)({**problem.rows.columns, "loss/loss": np.zeros(rows)})
        )
        exact = (1 - alpha) ** rows <= 1 - confidence  # the binomial test without a loss
        weights = unbiased_weights(problem, "confidence")
        passes = certify(weights, rows, confidence)["loss"] > -np.inf
        assert passes <= exact
        assert passes or rows < 40


def test_several_losses_need_no_correction_and_the_smallest_beta_is_served():
    rng = np.random.default_rng(3)
    both, alone = several_losses(TableWorld(3, distance=2.0).log(400, rng), 0.03, rng)
    found = calibrate(both, alpha={"a": 0.1, "b": 0.12}, confidence=0.8)
    for name, alpha in (("a", 0.1), ("b", 0.12)):
        own = calibrate(alone[name], alpha=alpha, confidence=0.8)
        assert found.losses[name].log_beta == own.log_beta
    assert found.log_beta == min(each.log_beta for each in found.losses.values())
    assert (found.confidence, found.rule) == (0.8, "confidence")


def test_an_exact_bound_for_the_safe_policy_alone():
    """With equal policies the certificate is a bound on a binomial rate: see Clopper–Pearson."""
    rows, losses = 400, 12
    same = np.full(rows, -1.0)
    log = Log((np.arange(rows) < losses).astype(float), same, same)
    exact = next(r for r in np.arange(0.03, 0.2, 1e-4) if binom.cdf(losses, rows, r) <= 0.1)
    assert not calibrate(log, alpha=0.99 * exact, confidence=0.9).exists
    assert calibrate(log, alpha=1.35 * exact, confidence=0.9).log_beta == np.inf


def test_every_look_costs_its_error():
    log = Log(np.zeros(400), *np.full((2, 400), -1.0))
    found = calibrate(log, alpha=0.1, confidence=0.95, looks=3)
    assert found.confidence == pytest.approx(0.85)
    assert "0.85" in found.statement
    with pytest.raises(ValueError, match="looks"):  # nothing is left
        calibrate(log, alpha=0.1, confidence=0.95, looks=20)
