"""Plans against the calibration itself and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.test_proved import TableWorld
from tests.control.worlds import table_log
from tether import plan
from tether.control.calibrate import calibrate
from tether.control.log import Log
from tether.control.plan import _pass_probability, _Points

RULES = ({"alpha": 0.1}, {"promise": 0.1}, {"alpha": 0.1, "confidence": 0.9})


def simulated(rows, safe_risk, repeats, asked, sizes=(1.0,), seed=0):
    """The share of logs on which anything but the safe policy is served, for equal policies."""
    rng, passed = np.random.default_rng(seed), 0
    for _ in range(repeats):
        loss = (rng.random(rows) < safe_risk) * rng.choice(sizes, rows)
        same = np.log([0.5, 0.5])
        log = table_log(loss, np.zeros(rows, int), same, same, context=np.arange(rows))
        passed += calibrate(log, **asked).exists
    return passed / repeats


@pytest.mark.parametrize("asked", RULES)
def test_the_probability_of_passing_is_that_of_simulated_logs(asked):
    """Also with losses of several sizes, which are planned from a log."""
    rng, sizes = np.random.default_rng(5), np.array([0.1, 0.3, 1.0])
    loss = (rng.random(20_000) < 0.15) * rng.choice(sizes, 20_000)
    log = Log(loss, np.zeros(20_000), np.zeros(20_000))
    plans = plan(safe_risk=0.06, rows=150, **asked), plan(log, safe_risk=0.07, rows=250, **asked)
    shares = simulated(150, 0.06, 120, asked), simulated(250, 0.15, 120, asked, sizes)
    for made, share, slack in zip(plans, shares, (0.02, 0.03), strict=True):
        expected = made.expected[0].pass_probability
        error = math.sqrt(expected * (1 - expected) / 120)
        assert share == pytest.approx(expected, abs=4 * error + slack)


@pytest.mark.parametrize("asked", RULES)
def test_the_likely_number_of_rows_passes_with_the_probability_and_fewer_do_not(asked):
    made = plan(safe_risk=0.05, pass_probability=0.9, **asked)
    likely, losses = int(made.rows_likely), (np.array([0.95, 0.05]), np.array([0.0, 1.0]))
    points = _Points(None, *losses, None)
    assert _pass_probability(made, points, likely) >= 0.9
    assert min(_pass_probability(made, points, n) for n in range(likely, likely + 50)) >= 0.9
    assert min(_pass_probability(made, points, n) for n in range(max(1, likely - 15), likely)) < 0.9
    assert made.rows_needed <= made.rows_likely


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 0.5), st.floats(0.0, 0.9), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_stronger_statement_never_needs_fewer_rows(level, part, probability):
    given = {"safe_risk": part * level, "pass_probability": probability, "rows": 10}
    certified = ({"alpha": level, "confidence": sure} for sure in (0.95, 0.99))
    asked = {"alpha": level}, {"promise": level}, *certified
    rows = [plan(**each, **given).rows_likely for each in asked]
    assert rows == sorted(rows)
    assert rows[1] <= plan(promise=0.95 * level, **given).rows_likely


def test_a_new_policy_as_safe_as_the_old_one_has_a_plan_with_numbers():
    made = plan(promise=0.1, safe_risk=0.05, optimized_risk=0.05)
    changed = [each.changed for each in made.expected]
    assert made.possible
    assert 0.2 < changed[0] <= changed[-1] < 0.5


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_log_of_the_same_size_is_expected_to_lead_to_its_own_beta(family):
    log = TableWorld(31, distance=2.0).log(500, np.random.default_rng(31))
    made = plan(log, alpha=0.07, family=family, rows=500)
    assert made.expected[0].beta == pytest.approx(calibrate(log, alpha=0.07, family=family).beta)
    found = calibrate(log, promise=0.07, family=family)
    made = plan(log, promise=0.07, family=family, rows=500)
    k = np.count_nonzero(found.chain.shares >= 0.5)
    assert math.log(made.expected[0].beta) == pytest.approx(found.chain.log_betas[k - 1])


def test_a_known_safe_risk_replaces_that_of_the_log():
    log = TableWorld(32, distance=2.0).log(300, np.random.default_rng(32))
    low, high = (plan(log, promise=0.08, safe_risk=risk) for risk in (0.02, 0.06))
    assert low.rows_likely < high.rows_likely
    assert low.safe_risk == pytest.approx(0.02)


def test_propensities_alone_are_planned_for_the_rules_that_need_no_test_weight():
    log = TableWorld(33).log(400, np.random.default_rng(33), tables=False)
    made = plan(log, promise=0.08, family="mix")
    assert made.possible
    assert made.expected[0].changed > 0
    with pytest.raises(ValueError, match="ratio"):
        plan(log, alpha=0.08, family="mix")


def test_errors_name_the_argument():
    two = Log({"a": [0.0], "b": [0.0]}, [-1.0], [-1.0])
    never = Log([0.0, 1.0], [-1.0, -1.0], [-np.inf, -np.inf])
    for name, wrong in (
        ("log_optimized", {"log": never, "promise": 0.6, "family": "mix"}),
        *(("safe_risk", {"promise": 0.1}), ("alpha", {"safe_risk": 0.1})),
        *(("promise", {"promise": 2.0, "safe_risk": 0.1}), ("log", {"log": two, "promise": 0.1})),
    ):
        with pytest.raises((TypeError, ValueError), match=name):
            plan(**wrong)
