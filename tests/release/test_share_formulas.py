import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from tests.release.exact_releases import excess
from tether.release.share_formulas import calibrated_share, exact_share

RISKS = (0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 0.8, 0.95, 1.0)


def calibrated(rows, total, old, alpha):
    return float(calibrated_share(np.array(old), np.array((total + 1) / (rows + 1)), alpha))


def exact(rows, total, old, alpha, bound=1.0):
    return float(exact_share(np.array(rows), np.array(total), np.array(old), alpha, bound))


def series(rows, total, old, alpha, terms=200):
    """The definition of the exact share, in fractions."""
    n, l, r, a = (Fraction(each) for each in (rows, total, old, alpha))  # noqa: E741
    product, found = Fraction(1), Fraction(0)
    for k in range(terms):
        product *= (n + k + 1) / (l + k + 1)
        found += r**k * product
        if (a - r) * found >= 1:
            return 1.0
    return float((a - r) * found)


fractions = st.integers(1, 63).map(lambda each: Fraction(each, 64))


@given(fractions, fractions, fractions)
def test_the_calibrated_share_is_the_largest_that_passes(old, new, alpha):
    share = float(calibrated_share(np.array(float(old)), np.array(float(new)), float(alpha)))
    if old >= alpha:
        assert share == 0
        return
    grid = [Fraction(each, 1024) for each in range(1025)]
    passing = [each for each in grid if (1 - each) * old + each * new <= alpha]
    assert max(passing) - Fraction(1, 10**9) <= share <= max(passing) + Fraction(1, 1024)
    assert (1 - share) * float(old) + share * float(new) <= float(alpha) + 1e-12


@settings(deadline=None)
@given(st.integers(0, 60), st.data())
def test_the_exact_share_is_its_series(rows, data):
    total = data.draw(st.integers(0, 2 * rows)) / 2
    alpha = data.draw(st.integers(1, 30)) / 32
    old = alpha * data.draw(st.integers(0, 7)) / 8
    found = exact(rows, total, old, alpha)
    assert found == pytest.approx(series(rows, total, old, alpha), rel=1e-12)
    assert found <= calibrated(rows, total, old, alpha) + 1e-12


def test_the_exact_share_is_an_integral():
    """The series is (n + 1)·∫(1 − t)^l·(1 − r·t)^−(n + 2) dt."""
    for rows, total, old, alpha in ((50, 3.5, 0.03, 0.05), (5000, 300.0, 0.04, 0.05)):

        def density(t, n=rows, l=total, r=old):  # noqa: E741
            return (n + 1) * np.exp(l * np.log1p(-t) - (n + 2) * np.log1p(-r * t))

        expected = (alpha - old) * quad(density, 0, 1, limit=500, epsabs=0, epsrel=1e-11)[0]
        assert exact(rows, total, old, alpha) == pytest.approx(expected, rel=1e-9)


def test_shares_are_the_same_in_other_units_and_without_a_risk_of_the_old_system():
    assert exact(80, 30.0, 0.5, 1.0, 10.0) == pytest.approx(exact(80, 3.0, 0.05, 0.1))
    assert exact(80, 30.0, 0.0, 0.1) == pytest.approx(calibrated(80, 30.0, 0.0, 0.1))
    rows = 10**6
    assert exact(rows, 0.06 * rows, 0.04, 0.05) == pytest.approx(0.5, abs=1e-3)
    assert exact(10**7, 0.0, 0.04, 0.05) == 1.0


@given(st.integers(1, 200), st.floats(0, 0.99), st.data())
def test_no_share_grows_with_a_loss(rows, part, data):
    alpha = data.draw(st.floats(0.01, 0.9))
    total = data.draw(st.floats(0, rows - 1))
    for rule in (calibrated, exact):
        assert rule(rows, total + 1, part * alpha, alpha) <= rule(rows, total, part * alpha, alpha)


@pytest.mark.parametrize("alpha", [0.04, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.95])
def test_the_expected_exact_share_is_within_the_theorem(alpha, part):
    old = part * alpha
    worst = max(
        excess(lambda n, l: exact(n, l, old, alpha), rows, risk, old, alpha)  # noqa: E741
        for rows in (1, 2, 5, 12, 80)
        for risk in RISKS
        if risk > alpha
    )
    assert 0.95 < worst <= 1 + 1e-12


def test_the_calibrated_share_breaks_it_so_that_a_stability_term_is_needed():
    rule = lambda n, l: calibrated(n, l, 0.01, 0.02)  # noqa: E731, E741
    assert excess(rule, 200, 0.04, 0.01, 0.02) > 1.04
    rule = lambda n, l: calibrated(n, l, 0.475, 0.5)  # noqa: E731, E741
    assert excess(rule, 1, 0.75, 0.475, 0.5) > 2


@pytest.mark.parametrize("values", [(0.0, 0.5, 1.0), (0.1, 0.3, 1.0), (0.0, 0.1, 0.9)])
def test_the_theorem_holds_for_losses_between_0_and_1(values):
    """Every outcome of five losses with three values each."""
    chances, alpha, old = np.array([0.5, 0.3, 0.2]), 0.2, 0.15
    mean, expected = float(chances @ values), 0.0
    assert mean > alpha
    for outcome in itertools.product(range(3), repeat=5):
        total = sum(values[each] for each in outcome)
        expected += np.prod(chances[list(outcome)]) * exact(5, total, old, alpha)
    assert expected <= (alpha - old) / (mean - old)
