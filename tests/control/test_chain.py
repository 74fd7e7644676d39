"""The soft chain: exact sums over all logs of small worlds, and wrong variants that must fail."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.control.chain import design, factors, position, soft_chain

# ---- small worlds in rational arithmetic -------------------------------------------------------


def rational_chain(log, level, stake, bound):
    """S_1, …, S_K of a log: a list of rows, each a loss and (weight, limit) at every candidate."""
    shares, lowest = [], Fraction(1)
    for k in range(len(log[0][1])):
        capital = Fraction(1)
        for loss, weights in log:
            weight, limit = weights[k]
            spare = 1 / stake - (bound - level)
            c = Fraction(0)
            if limit > 1:
                c = max(c, bound - level - spare / (limit - 1))
            capital *= 1 - stake * ((loss - level) * weight + c * (1 - weight))
        lowest = min(lowest, capital)
        shares.append(lowest)
    return shares


def every_log(chances, rows):
    """Every log up to the order of its rows: its probability, and which point each row is."""
    for log in itertools.combinations_with_replacement(range(len(chances)), rows):
        probability = Fraction(math.factorial(rows))
        for number in set(log):
            count = log.count(number)
            probability *= chances[number] ** count / math.factorial(count)
        yield probability, log


def expected_loss(points, risks, rows, chain):
    """The exact expected loss over all logs; `points` are (probability, row)."""
    total = Fraction(0)
    for probability, log in every_log([chance for chance, _ in points], rows):
        shares = [Fraction(1), *chain([points[number][1] for number in log]), Fraction(0)]
        served = sum((shares[k] - shares[k + 1]) * risk for k, risk in enumerate(risks))
        total += probability * served
    return total


def policy_world(safe, optimized, losses, betas):
    """Clip over a finite set of actions: points of the log, and the risk of each candidate."""
    policies = [safe]
    for beta in betas:
        kernel = [min(o, beta * s) for s, o in zip(safe, optimized, strict=True)]
        policies.append([each / sum(kernel) for each in kernel])
    limits = [max(p / s for p, s in zip(each, safe, strict=True)) for each in policies[1:]]
    points = [
        (
            safe[a],
            (
                losses[a],
                [(p[a] / safe[a], limit) for p, limit in zip(policies[1:], limits, strict=True)],
            ),
        )
        for a in range(len(safe))
    ]
    risks = [sum(p * loss for p, loss in zip(each, losses, strict=True)) for each in policies]
    return points, risks


def bound_of(promise, level, stake, rows, safe_risk):
    """What the theorem says, with (1 − x)^n ≤ exp(−n·x) left out: the integral itself."""
    start = max(safe_risk, level)
    rest = (1 - stake * (start - level)) ** (rows + 1) / (stake * (rows + 1))
    return max(safe_risk, level) + rest if safe_risk > level else promise


def rational_design(rows, promise, bound, sharpness):
    stake = min(sharpness / ((rows + 1) * promise), rows / ((rows + 1) * (bound - promise)))
    return promise - 1 / (stake * (rows + 1)), stake


def simplex(size, steps=12):
    return st.lists(st.integers(1, steps), min_size=size, max_size=size).map(
        lambda parts: [Fraction(each, sum(parts)) for each in parts]
    )


fractions = st.integers(0, 4).map(lambda k: Fraction(k, 4))
promises = st.integers(1, 9).map(lambda k: Fraction(k, 10))


@settings(max_examples=60, deadline=None)
@given(
    simplex(3),
    simplex(3),
    st.lists(fractions, min_size=3, max_size=3),
    promises,
    st.integers(1, 4),
    st.sampled_from([Fraction(3, 2), Fraction(2), Fraction(4)]),
)
def test_exact_sums_over_all_logs_of_policies_stay_within_the_theorem(
    safe, optimized, losses, promise, rows, sharpness
):
    betas = [Fraction(1, 8), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(100)]
    points, risks = policy_world(safe, optimized, losses, betas)
    level, stake = rational_design(rows, promise, Fraction(1), sharpness)
    if level < 0:
        return
    chain = partial(rational_chain, level=level, stake=stake, bound=Fraction(1))
    found = expected_loss(points, risks, rows, chain)
    assert found <= bound_of(promise, level, stake, rows, risks[0])


def climb(score, start, steps, rng):
    """Hill climbing over positive integers."""
    best, value = start, score(start)
    for _ in range(steps):
        other = [max(0, each + int(rng.integers(-3, 4)) * int(rng.random() < 0.4)) for each in best]
        found = score(other)
        if found > value:
            best, value = other, found
    return float(value)


def climbed(level_of, steps=150, starts=3):
    """The largest expected loss over the promise that hill climbing finds for a choice of level."""
    rows, promise = 3, Fraction(2, 5)

    def score(parts):
        weights = [each + 1 for each in parts[:6]]
        safe = [Fraction(each, sum(weights[:3])) for each in weights[:3]]
        optimized = [Fraction(each, sum(weights[3:])) for each in weights[3:]]
        losses = [min(Fraction(each, 12), Fraction(1)) for each in parts[6:9]]
        betas = [Fraction(1, 4), Fraction(1), Fraction(8)]
        points, risks = policy_world(safe, optimized, losses, betas)
        sharp = Fraction(2)
        _, stake = rational_design(rows, promise, Fraction(1), sharp)
        level = level_of(promise, stake, rows)
        if risks[0] > promise - 1 / (stake * (rows + 1)):
            return Fraction(0)  # the theorem promises nothing here
        chain = partial(rational_chain, level=level, stake=stake, bound=Fraction(1))
        return expected_loss(points, risks, rows, chain) / promise

    rng = np.random.default_rng(0)
    return max(climb(score, rng.integers(0, 9, 9).tolist(), steps, rng) for _ in range(starts))


def test_hill_climbing_finds_no_world_above_the_promise_but_does_with_the_level_at_the_promise():
    assert 0.6 < climbed(lambda promise, stake, rows: promise - 1 / (stake * (rows + 1))) <= 1
    assert climbed(lambda promise, stake, rows: promise) > 1


# ---- the functions of the package --------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0, 1), st.floats(0, 30), st.floats(1, 40), st.floats(0.01, 0.9), st.floats(0.01, 1)
)
def test_factors_are_those_of_the_definition_and_never_negative(loss, weight, limit, level, part):
    weight, stake = min(weight, limit), part / (1 - level)
    row = (Fraction(loss), [(Fraction(weight), Fraction(limit))])
    spare = 1 / Fraction(stake) - (1 - Fraction(level))
    found = factors(loss, weight, limit, level, stake, 1.0)
    assert found >= 0
    if 0 != spare < 1e-6:  # rounding of the stake, which moves a c that is free
        return
    (lowest,) = rational_chain([row], Fraction(level), Fraction(stake), Fraction(1))
    if lowest < 1:
        assert found == pytest.approx(float(lowest), abs=1e-9)
    at_worst = factors(1.0, limit, limit, level, stake, 1.0)
    assert at_worst >= 0
    assert factors(loss, weight, math.inf, level, stake, 1.0) <= (
        1 + stake * (level * weight) + stake * abs(1 - weight)
    ) * (1 + 1e-9)


def test_stakes_that_could_make_a_factor_negative_lose_everything_and_so_does_the_worst_row():
    assert factors(0.0, 1.0, 1.0, level=0.1, stake=1.2, bound=1.0) == 0
    assert factors(0.0, 1.0, 1.0, level=-0.01, stake=0.1, bound=1.0) == 0
    assert factors(0.0, 2.0, 5.0, level=0.1, stake=np.inf, bound=1.0) == 0
    limit = 10.0 ** np.arange(1, 10)  # the weights of rows are rounded
    assert (factors(1.0, limit * (1 - 1e-12), limit, level=0.1, stake=0.9, bound=1.0) == 0).all()


@given(st.integers(1, 10**6), st.floats(0.01, 0.9), st.floats(0.5, 5))
def test_design_spends_exactly_the_promise(rows, promise, bound):
    promise *= bound
    level, stake = design(rows, promise, bound)
    assert level + 1 / (stake * (rows + 1)) == pytest.approx(promise)
    assert stake * (bound - level) <= 1 + 1e-9
    known = 0.9 * promise
    higher, sharper = design(rows, promise, bound, known)
    assert higher >= level - 1e-12
    assert higher >= known - 1e-9 or sharper * (bound - higher) == pytest.approx(1)


def test_shares_fall_from_at_most_one_and_a_draw_serves_the_last_that_reaches_it():
    shares = soft_chain([0.5, -0.1, 0.3, -2.0, -1.0])
    assert shares == pytest.approx(np.exp([0, -0.1, -0.1, -2, -2]))
    assert [position(shares, u) for u in (1.0, 0.95, 0.5, 0.13, 1e-9)] == [1, 1, 3, 5, 5]
    assert position(soft_chain([-1.0]), 0.9) == 0
