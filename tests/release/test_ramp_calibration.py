import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tests.release.test_share_formulas import calibrated, exact
from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.risk_bounds import anytime_bound

OLD = ArmCounts(2000, 20.0)


def one(guardrail, old=OLD, new=None, **kinds):
    new = ArmCounts(0, 0.0) if new is None else new
    return ramp_share({"loss": guardrail}, old={"loss": old}, new={"loss": new}, **kinds)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 500), st.integers(0, 300), st.data())
def test_the_share_is_that_of_the_formulas(old_rows, new_rows, data):
    old_total = data.draw(st.integers(0, old_rows // 3))
    total, pending = data.draw(st.integers(0, new_rows)), 0
    if total < new_rows:
        pending = data.draw(st.integers(0, new_rows - total))
    old, new = ArmCounts(old_rows, old_total), ArmCounts(new_rows, total, pending)
    rho = (old_total + 1) / (old_rows + 1)
    made = one(Guardrail(0.2), old, new)
    assert made.share == pytest.approx(calibrated(new_rows, total + pending, rho, 0.2))
    made = one(Guardrail(promise=0.2), old, new)
    part = made.guardrails["loss"]
    assert made.share == pytest.approx(exact(new_rows, total + pending, rho, part.alpha))
    assert part.stability == 0
    assert made.share == 0 or part.promise <= 0.2 + 1e-12
    assert bool(made.reason) == (made.share == 0)


def test_the_smallest_share_binds_and_every_promise_is_stated():
    guardrails = {"complaint": Guardrail(0.02), "latency": Guardrail(0.5, bound=2.0)}
    old = {"complaint": OLD, "latency": ArmCounts(2000, 200.0)}
    new = {"complaint": ArmCounts(200, 1.0), "latency": ArmCounts(200, 180.0)}
    made = ramp_share(guardrails, old=old, new=new)
    assert made.binding == "latency"
    assert made.share == made.guardrails["latency"].share < made.guardrails["complaint"].share
    assert made.promises["latency"] == pytest.approx(0.5, rel=0.02)
    assert made.useful
    assert made.guardrails["latency"].calibrated_risk(made.share) <= 0.5
    saved = json.loads(json.dumps(made.to_dict()))
    assert saved["share"] == made.share
    assert saved["guardrails"]["latency"]["new"]["rows"] == 200


def test_an_old_system_that_does_not_pass_closes_the_ramp_and_says_so():
    made = one(Guardrail(0.01))
    assert made.share == 0
    assert not made.useful
    assert made.promises == {"loss": 1.0}
    assert "the old system alone does not pass for loss" in made.reason
    assert "with 2,000 rows its losses may sum to at most 19 for an alpha of 0.01" in str(made)


def test_a_confidence_uses_bounds_at_all_times_divided_over_systems_and_guardrails():
    new = ArmCounts(900, 5.0)
    made = one(Guardrail(0.02), new=new, confidence=0.9)
    old_bound = float(anytime_bound(np.array(2000), np.array(20.0), 1.0, 0.02, 0.05))
    new_bound = float(anytime_bound(np.array(900), np.array(5.0), 1.0, 0.02, 0.05))
    assert made.guardrails["loss"].old_bound == old_bound
    assert made.share == 1.0 if new_bound <= 0.02 else pytest.approx(0.5, abs=0.5)
    assert made.promises == {"loss": 0.02}
    assert "with probability 0.9 at all steps" in str(made)
    both = {"a": Guardrail(0.02), "b": Guardrail(0.02)}
    two = ramp_share(
        both, old=dict.fromkeys(both, OLD), new=dict.fromkeys(both, new), confidence=0.9
    )
    assert two.guardrails["a"].new_bound > new_bound


def test_with_a_confidence_a_good_new_system_needs_no_good_old_one():
    made = one(Guardrail(0.02), ArmCounts(100, 50.0), ArmCounts(5000, 10.0), confidence=0.9)
    assert made.share == 1.0
    assert not made.reason
    assert one(Guardrail(0.02), ArmCounts(100, 50.0), ArmCounts(9, 0.0), confidence=0.9).share == 0


@pytest.mark.parametrize("old_risk", [0.1, 0.15, 0.2])
@pytest.mark.parametrize("new_risk", [0.25, 0.5, 1.0])
def test_with_both_systems_estimated_the_existence_term_is_enough(old_risk, new_risk):
    """Exact sums over the losses of both systems: the theorem, and the stated promises."""
    alpha, old_rows, new_rows = 0.2, 40, 30
    old_chance = binom.pmf(np.arange(old_rows + 1), old_rows, old_risk)
    new_chance = binom.pmf(np.arange(new_rows + 1), new_rows, new_risk)
    risk, existence, passing, stated = 0.0, 0.0, 0.0, 0.0
    for total, chance in enumerate(old_chance):
        rho = (total + 1) / (old_rows + 1)
        shares = np.array([exact(new_rows, each, rho, alpha) for each in range(new_rows + 1)])
        here = chance * (old_risk + (new_risk - old_risk) * float(new_chance @ shares))
        risk += here
        existence += chance * max(rho - alpha, 0.0)
        if rho < alpha:  # a promise is stated
            part = one(Guardrail(alpha), ArmCounts(old_rows, total)).guardrails["loss"]
            passing += here
            stated += chance * (alpha + part.existence)
    assert risk <= alpha + existence + 1e-12
    assert passing <= stated
    if old_risk == alpha:
        assert risk > alpha


def test_the_existence_term_at_an_old_risk_of_alpha_is_that_of_the_design():
    """2,000 rows at exactly alpha = 0.02: the mean risk is up to 0.0211, not 0.02."""
    totals = np.arange(150)
    rho = (totals + 1) / 2001
    added = binom.pmf(totals, 2000, 0.02) @ np.maximum(rho - 0.02, 0.0)
    assert 0.0010 < added < 0.0016


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="guardrails is empty"):
        ramp_share({}, old={}, new={})
    with pytest.raises(ValueError, match="old must have rows for the guardrails"):
        ramp_share({"loss": Guardrail(0.1)}, old={}, new={"loss": OLD})
    with pytest.raises(ValueError, match="has a promise: with a confidence alpha itself"):
        one(Guardrail(promise=0.1), confidence=0.9)
    with pytest.raises(ValueError, match="confidence must be above 0"):
        one(Guardrail(0.1), confidence=1.0)
