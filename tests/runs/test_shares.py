"""Shares against sums over everything that can happen, in fractions; wrong rules must fail."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.runs import shares

RISKS = [Fraction(k, 20) for k in range(1, 20)]
BASE = Fraction(1, 10)


def zeros_and_ones(rows, total):
    return np.repeat([0.0, 1.0], [rows - total, total])


def binomial(rows, risk):
    """The number of failures with its probability."""
    for total in range(rows + 1):
        yield total, comb(rows, total) * risk**total * (1 - risk) ** (rows - total)


def expected(rows, risk, value):
    return float(sum(chance * Fraction(value(total)) for total, chance in binomial(rows, risk)))


@given(
    losses=st.lists(st.integers(0, 1), max_size=40),
    old=st.integers(0, 50).map(lambda k: k / 128),
    more=st.floats(0.01, 0.4),
)
def test_the_integral_is_the_product_form_for_losses_of_0_and_1(losses, old, more):
    n, total = len(losses), sum(losses)
    term = result = Fraction(n + 1, total + 1)
    for k in range(1, 300):
        term *= Fraction(old) * Fraction(n + k + 1, total + k + 1)
        result += term
        if result > 10**4:
            break
    exact = min(1.0, more * float(result))
    found = shares.fresh_share(np.array(losses, float), old, old + more)
    assert found == pytest.approx(exact, rel=1e-8)


def test_an_old_system_above_what_is_tolerated_leaves_nothing_and_growth_is_limited():
    none = np.zeros(0)
    for old in (0.1, 0.15, 0.5):
        assert shares.fresh_share(none, old, 0.1) == 0
        assert shares.sticky_share(none, none, 0.3, old, 0.1) == 0
        assert shares.confident_share(none, none, 0.3, old, 0.1, 0.01) == 0
    assert shares.grown(1.0, 0.2, 3.0) == pytest.approx(0.62)


@given(
    losses=st.lists(st.floats(0, 1), min_size=1, max_size=12),
    old=st.floats(0, 0.4),
    worse=st.floats(0, 1),
)
def test_the_share_falls_in_every_loss_and_graded_losses_give_more(losses, old, worse):
    values = np.array(losses)
    found = shares.inverse_gap(values, old)
    raised = values.copy()
    raised[0] = max(raised[0], worse)
    assert shares.inverse_gap(raised, old) <= found * (1 + 1e-9)
    whole = zeros_and_ones(len(values), int(np.ceil(values.sum())))
    assert found >= shares.inverse_gap(whole, old) * (1 - 1e-9)


@pytest.mark.parametrize("rows", [0, 1, 3, 10, 40])
@pytest.mark.parametrize("old", [0.0, 0.02, 0.05])
def test_the_exact_share_keeps_its_promise_for_every_risk(rows, old):
    promise = 0.1
    for risk in RISKS:
        share = expected(
            rows, risk, lambda total: shares.fresh_share(zeros_and_ones(rows, total), old, promise)
        )
        assert old + share * (float(risk) - old) <= promise + 1e-9


def test_the_plug_in_share_breaks_the_promise():
    def plug_in(total, rows=40, old=0.02, promise=0.1):
        mean = total / rows
        return 1.0 if mean <= promise else (promise - old) / (mean - old)

    risks = [0.02 + expected(40, risk, plug_in) * (float(risk) - 0.02) for risk in RISKS]
    assert max(risks) > 0.101


@pytest.mark.parametrize("values", [(0.0, 0.3), (0.2, 0.6, 1.0), (0.0, 0.5, 1.0)])
def test_graded_losses_keep_the_promise_too(values):
    rows, old, promise = 5, 0.05, 0.2
    for weights in product([0.1, 0.4, 0.8], repeat=len(values)):
        chances = np.array(weights) / sum(weights)
        risk = float(chances @ np.array(values))
        if risk <= old:
            continue
        share = sum(
            np.prod(chances[list(drawn)])
            * shares.fresh_share(np.array([values[k] for k in drawn]), old, promise)
            for drawn in product(range(len(values)), repeat=rows)
        )
        assert old + share * (risk - old) <= promise + 1e-9


@cache
def sticky_shares(low, inside, added, old, promise, rule):
    """The share for every number of failures of inside and added keys."""
    return {
        (failed_in, failed_new): rule(
            *(zeros_and_ones(inside, failed_in), zeros_and_ones(added, failed_new)),
            *(low, old, promise),
        )
        for failed_in in range(inside + 1)
        for failed_new in range(added + 1)
    }


def sticky_loss(low, inside, added, old, promise, r_in, r_new, rule=shares.sticky_share):
    """The expected loss of a unit of the next step, over all that inside and added keys can do."""
    found, total = sticky_shares(low, inside, added, old, promise, rule), 0.0
    chances_new = [float(chance) for _, chance in binomial(added, r_new)]
    for failed_in, chance_in in binomial(inside, r_in):
        for failed_new, chance_new in enumerate(chances_new):
            s = found[failed_in, failed_new]
            loss = old + min(s, low) * (float(r_in) - old) + max(s - low, 0) * (float(r_new) - old)
            total += float(chance_in) * chance_new * loss
    return total


@pytest.mark.parametrize(("low", "inside", "added"), [(0.1, 10, 20), (0.3, 30, 30), (0.6, 40, 12)])
def test_returning_keys_cost_next_to_nothing_more_than_promised(low, inside, added):
    promise, old = 0.1, 0.02
    worst = max(
        sticky_loss(low, inside, added, old, promise, r_in, r_new)
        for r_in in RISKS[:12:2]
        for r_new in RISKS[::4]
    )
    assert worst <= promise * 1.0025


def test_pooling_the_units_of_returning_keys_breaks_the_promise():
    """Harmed keys have left: the survivors vouch for those who are to come."""

    def pooled(inside, added, low, old, promise):
        return shares.fresh_share(np.concatenate([inside, added]), old, promise)

    left = Fraction(0), Fraction(1, 4)
    assert sticky_loss(0.4, 40, 10, 0.02, 0.1, *left, rule=pooled) > 0.115
    assert sticky_loss(0.4, 40, 10, 0.02, 0.1, *left) <= 0.1


def relative_excess(rows_new, rows_old, risk, base, rule):
    """What is served more than the old system's risk, over all outcomes of both."""
    total = Fraction(0)
    for failed, chance in binomial(rows_new, risk):
        for old_failed, old_chance in binomial(rows_old, base):
            share = rule(zeros_and_ones(rows_new, failed), zeros_and_ones(rows_old, old_failed))
            total += chance * old_chance * Fraction(share)
    return float(total * (risk - base))


@pytest.mark.parametrize(("delta", "ratio"), [(0.05, 0.0), (0.0, 0.3), (0.02, 0.1)])
@pytest.mark.parametrize(("rows_new", "rows_old"), [(0, 0), (3, 12), (12, 12), (15, 4)])
def test_the_relative_share_keeps_its_promise(delta, ratio, rows_new, rows_old):
    for base in (Fraction(1, 50), Fraction(1, 10), Fraction(3, 10)):
        for risk in RISKS[1::3]:
            excess = relative_excess(
                rows_new,
                rows_old,
                risk,
                base,
                lambda new, old: shares.relative_share(new, old, delta, ratio),
            )
            assert excess <= delta + ratio * float(base) + 1e-9


def test_the_relative_plug_in_breaks_its_promise():
    def plug_in(new, old, delta=0.05):
        gap = (new.sum() + 1) / (len(new) + 1) - old.sum() / (len(old) + 1)
        return 1.0 if gap <= delta else delta / gap

    worst = max(relative_excess(30, 20, risk, Fraction(3, 10), plug_in) for risk in RISKS[6::2])
    assert worst > 1.05 * 0.05


@cache
def relative_shares(risk, rows=8, delta=0.1, base=BASE):
    """The relative share with its probability, over all outcomes of both systems."""
    return [
        (
            float(p * q),
            shares.relative_share(zeros_and_ones(rows, a), zeros_and_ones(rows, b), delta, 0.0),
        )
        for (a, p), (b, q) in product(binomial(rows, risk), binomial(rows, base))
    ]


def relative_sticky_excess(low, r_in, r_new, rule):
    """What is served more than the old system's risk where keys return."""
    total = 0.0
    for (p, x), (q, g) in product(relative_shares(r_in), relative_shares(r_new)):
        s = rule(x, g, low)
        total += p * q * (min(s, low) * float(r_in - BASE) + max(s - low, 0) * float(r_new - BASE))
    return total


@pytest.mark.parametrize("low", [0.0, 0.1, 0.3, 0.7])
def test_the_relative_share_of_returning_keys_keeps_its_promise(low):
    risks = [Fraction(k, 20) for k in (0, 5, 8, 18)]
    for pair in product(risks, repeat=2):
        assert relative_sticky_excess(low, *pair, shares.relative_sticky_share) <= 0.1 + 1e-9


def test_all_that_the_added_rows_allow_would_be_too_much():
    def careless(within, beyond, low):
        return min(within, low) if within <= low else min(1.0, low + beyond)

    assert relative_sticky_excess(0.3, Fraction(8, 20), Fraction(18, 20), careless) > 0.11


@settings(max_examples=20)
@given(
    rows=st.integers(1, 60), risk=st.sampled_from(RISKS), error=st.sampled_from([0.3, 0.1, 0.02])
)
def test_an_upper_bound_holds_with_its_probability(rows, risk, error):
    missed = sum(
        chance
        for total, chance in binomial(rows, risk)
        if shares.upper_bound(zeros_and_ones(rows, total), error) < risk
    )
    assert missed <= error


def test_an_upper_bound_holds_for_keys_with_different_risks():
    risks, error = [0.0, 0.1, 0.9, 0.2, 0.7, 0.05], 0.2
    missed = 0.0
    for size in range(7):
        for failing in combinations(range(6), size):
            chance = np.prod([r if k in failing else 1 - r for k, r in enumerate(risks)])
            if shares.upper_bound(zeros_and_ones(6, size), error) < np.mean(risks):
                missed += float(chance)
    assert missed <= error


@given(
    low=st.floats(0, 1),
    old=st.floats(0, 0.1),
    counts=st.tuples(*[st.integers(0, 30)] * 4),
)
def test_a_confident_share_is_within_what_is_tolerated_if_its_bounds_hold(low, old, counts):
    inside, added = (zeros_and_ones(n + k, k) for n, k in (counts[:2], counts[2:]))
    share = shares.confident_share(inside, added, low, old, 0.1, 0.05)
    within, beyond = shares.upper_bound(inside, 0.05), shares.upper_bound(added, 0.05)
    loss = old + min(share, low) * (within - old) + max(share - low, 0) * (beyond - old)
    assert loss <= max(0.1, old) + 1e-9 or within < old


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"tolerated": 0.1, "delta": 0.1}, "tolerated"),
        ({"delta": -0.1}, "delta"),
        ({}, "delta"),
        ({"ratio": -1.0}, "ratio"),
    ],
)
def test_wrong_guardrails_are_refused(wrong, name):
    with pytest.raises(ValueError, match=name):
        shares.Guardrail(**wrong)
