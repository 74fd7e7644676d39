"""A calibration in words: its summary, its statement and its warnings."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import calibrated, gaussian_columns, log_and_proposals


def test_summary_of_each_outcome():
    finite, _ = calibrated()
    assert str(finite).startswith("beta = 0.6") or "beta = 0." in str(finite)
    assert "promise" in str(finite)
    assert "assumed" in str(finite)
    whole, _ = calibrated(alpha=0.9)
    assert "beta = inf: the optimized policy passes as it is" in str(whole)
    none, _ = calibrated(alpha=0.01)
    assert "beta = 0: no promise, and serving the safe policy does not" in str(none)
    assert "no beta passes" in str(none)
    assert "expected loss ≤" not in str(none)
    assert none.promise == none.bound == 1.0
    assert none.risk > 0.01


def test_several_constraints_in_words():
    made = gaussian_columns(np.random.default_rng(6), 500, 200)
    log = tether.Log(
        {"harm": made["loss"], "delay": 5 * made["loss"]}, made["safe"], made["optimized"]
    )
    found = tether.calibrate(
        log, alpha={"harm": 0.2, "delay": 0.5}, bound={"harm": 1.0, "delay": 5.0}
    )
    assert found.binding.name == "delay"
    assert (found.alpha, found.bound) == (0.5, 5.0)
    assert found.risk == found.risks["delay"] == pytest.approx(0.5)
    assert found.promises["harm"] < found.promises["delay"] == found.promise
    assert "risk of delay" in str(found)
    assert found.curve("harm").risk == pytest.approx(found.curve().risk / 5, rel=1e-6)


def test_a_single_loss_that_was_given_by_name_is_named():
    loss = np.repeat([1.0, 0.0], [1, 49])
    for given, stated in (
        (loss, "the expected loss of the next action is at most"),
        ({"complaint": loss}, "the expected loss (complaint) of the next action is at most"),
    ):
        log = tether.Log(given, np.zeros(50), np.zeros(50))
        found = tether.calibrate(log, tether.Proposals(0 * loss, 0 * loss), alpha=0.2)
        assert found.statement.startswith(stated)
        assert stated in " ".join(found.summary().split())


def test_warnings_say_what_is_wrong():
    made = gaussian_columns(np.random.default_rng(5), 300, 300)
    log, proposals = log_and_proposals(made, False)
    alone = tether.calibrate(log, alpha=0.15)
    assert alone.test_weight == "analytic"
    assert any("without proposals" in warning for warning in alone.warnings)
    assert alone.beta <= tether.calibrate(log, proposals, alpha=0.15).beta

    few = tether.Proposals(made["draw_safe"][:1], made["draw_optimized"][:1] - 3)
    short = tether.calibrate(log, few, alpha=0.15)
    assert any("have a larger weight than the test point" in warning for warning in short.warnings)
    assert short.rows_beyond_draws > 0

    small = tether.Log(np.zeros(20), made["safe"][:20], made["optimized"][:20])
    thin = tether.calibrate(small, proposals, alpha=0.15)
    assert any("rests on few rows" in warning for warning in thin.warnings)

    wrong = tether.Log(made["loss"], made["safe"], made["optimized"] + 1.0)
    moved = tether.calibrate(wrong, alpha=0.15)
    assert any("should be at most 1" in warning for warning in moved.warnings)


def test_a_fixed_test_weight_that_the_log_disproves_is_warned_of():
    rng = np.random.default_rng(6)
    action = rng.normal(size=500)
    log = tether.Log(action > 1.5, -(action**2) / 2, -((action - 1) ** 2) / 2)
    found = tether.calibrate(log, alpha=0.2, test_weight=1e-6)
    assert any("have a larger weight than the test point" in warning for warning in found.warnings)


def test_proposals_that_the_safe_policy_never_takes_are_warned_of():
    proposals = tether.Proposals(np.append(np.full(99, -np.inf), 0.0), np.zeros(100))
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50))
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert found.beta == np.inf
    assert any("99.0% of the optimized policy's" in warning for warning in found.warnings)
    assert "passes, restricted to the safe policy's" in str(found)


def test_a_risk_that_only_rounding_carries_past_alpha_is_alpha():
    """A sum of 0.07462500000690561 was printed as 0.07463, at most 0.07462."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        action = rng.normal(size=300)
        log = tether.Log(action > 1.5, -(action**2) / 2, -((action - 1) ** 2) / 2)
        found = tether.calibrate(log, alpha=0.15, family="mix", test_weight=5.0)
        assert found.risk <= found.alpha or not found.exists


def test_nothing_limits_an_infinite_beta():
    actions = np.random.default_rng(0).normal(size=500)
    losses = {"harm": actions > 1.5, "delay": actions > 1.8}
    log = tether.Log(losses, -(actions**2) / 2, -((actions - 1) ** 2) / 2)
    drawn = np.zeros(9), np.full(9, -0.1)
    proposals = tether.Proposals(*drawn)
    assert "limits beta" not in str(tether.calibrate(log, proposals, alpha=0.9))
    assert "limits beta" in str(tether.calibrate(log, proposals, alpha=0.1))
