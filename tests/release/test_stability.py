import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from tests.release.exact_releases import excess
from tests.release.test_share_formulas import calibrated
from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.share_formulas import calibrated_share
from tether.release.stability import _binomial_means, worst_excess


def two_point_excess(rows, low, high, mean, old, alpha):
    """R·(E[s] − v) for losses with two values, an exact sum."""
    losses = np.arange(rows + 1)
    totals = low * (rows - losses) + high * losses
    share = calibrated_share(np.array(old), (totals + 1) / (rows + 1), np.array(alpha))
    expected = binom.pmf(losses, rows, (mean - low) / (high - low)) @ share
    return mean * (expected - (alpha - old) / (mean - old))


@pytest.mark.parametrize(("alpha", "old"), [(0.02, 0.01), (0.1, 0.095), (0.5, 0.4)])
@pytest.mark.parametrize("rows", [1, 3, 20, 100])
def test_losses_of_0_and_1_have_no_larger_excess_at_any_risk(alpha, old, rows):
    rule = lambda n, l: calibrated(n, l, old, alpha)  # noqa: E731, E741
    stated = worst_excess(rows, old, alpha)
    for risk in np.concatenate((np.linspace(alpha, 1, 150)[1:], np.geomspace(alpha, 1, 150)[1:])):
        relative = excess(rule, rows, min(risk, 1.0), old, alpha) - 1
        assert min(risk, 1.0) * relative * (alpha - old) / (risk - old) <= stated


@pytest.mark.parametrize(
    ("alpha", "old", "rows", "low", "high", "mean", "risk"),
    [
        (0.02, 0.019, 75, 0.005, 1.0, 0.035, 0.021228),
        (0.5, 0.475, 2, 0.25, 1.0, 0.70833, 0.52452),
        (0.05, 0.0475, 30, 0.0125, 1.0, 0.0875, None),
        (0.3, 0.285, 5, 0.0, 0.8, 0.425, 0.31380),
        (0.3, 0.285, 15, 0.0, 0.95, 0.4, None),
    ],
)
def test_losses_that_are_worse_than_0_and_1_are_covered(alpha, old, rows, low, high, mean, risk):
    """A term from losses of 0 and 1 alone was exceeded by each of these."""
    old_rows = 10**8  # the old system's risk is known
    counts = ArmCounts(old_rows, old * (old_rows + 1) - 1)
    chances = binom.pmf(np.arange(rows + 1), rows, (mean - low) / (high - low))
    expected, stated = 0.0, 0.0
    for losses, chance in enumerate(chances):
        new = ArmCounts(rows, low * (rows - losses) + high * losses)
        made = ramp_share({"x": Guardrail(alpha)}, old={"x": counts}, new={"x": new})
        expected += chance * (old + made.share * (mean - old))
        stated = made.promises["x"]
    share_bound = _binomial_means(rows, mean, old, alpha).min()
    assert (expected - old) / (mean - old) <= share_bound + 1e-7  # of the proof, at this mean
    assert risk is None or expected == pytest.approx(risk, abs=2e-5)
    assert alpha < expected <= stated


def test_it_scales_with_the_bound_and_vanishes_where_nothing_is_chosen():
    assert worst_excess(50, 0.05, 0.1, 5.0) == pytest.approx(5 * worst_excess(50, 0.01, 0.02))
    assert worst_excess(0, 0.01, 0.02) == worst_excess(50, 0.02, 0.02) == 0.0
    assert worst_excess(50, 0.0, 0.02) < 1e-3 * 0.02
    assert 0 < worst_excess(10**5, 0.01, 0.02) < 1e-4


@pytest.mark.parametrize("part", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("rows", [20, 75, 300])
def test_it_is_not_much_larger_than_what_two_values_reach(part, rows):
    """The bound is of use: within a factor of three or a thousandth of alpha."""
    alpha, old = 0.05, 0.05 * part
    reached = max(
        two_point_excess(rows, low, high, mean, old, alpha)
        for low in (0.0, 0.01, 0.02, 0.04)
        for high in (0.1, 0.3, 0.6, 1.0)
        for mean in np.geomspace(alpha * 1.01, high, 40)
    )
    assert reached <= worst_excess(rows, old, alpha) <= 3 * reached + 1e-3 * alpha


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5),
    st.tuples(*[st.integers(0, 8)] * 3),
    st.tuples(*[st.integers(1, 6)] * 3),
    st.integers(2, 12),
    st.integers(1, 9),
)
def test_no_three_values_have_a_larger_excess(rows, values, weights, level, part):
    """Every outcome of up to five losses with three values each."""
    values, chances = np.array(values) / 8, np.array(weights) / sum(weights)
    alpha, mean = level / 16, float(chances @ values)
    old = alpha * part / 10
    if mean <= alpha:
        return
    expected = sum(
        np.prod(chances[list(outcome)]) * calibrated(rows, values[list(outcome)].sum(), old, alpha)
        for outcome in itertools.product(range(3), repeat=rows)
    )
    found = mean * (expected - (alpha - old) / (mean - old))
    assert found <= worst_excess(rows, old, alpha) + 1e-12
