"""Ties at a beta of zero: rounding decides none, and memory and parts decide alike.

Two happen by construction. Losses and alpha are round numbers, so that the condition holds at zero
by exactly the tolerance. And the reference is the policy that an earlier calibration on the same
rows found, where it holds by exactly zero. The oracle has the probabilities, the tolerance and the
root of mix, which is rational, in exact arithmetic.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether._core.ties import LEAST_SLACK, TIE_TOLERANCE

ALPHA = 0.3
ACTIONS = 4


def exact_root(rows, actions, safe, optimized, mixture, tolerance=Fraction(TIE_TOLERANCE)):
    """The largest beta of mix; None if none passes, −1 if all do.

    Σ a_i·(safe + β·optimized)/mixture + max_j (1 − α)·(safe + β·optimized)/mixture ≤ 0, where
    losses below alpha count by 1 + tolerance more.
    """
    alpha = Fraction(ALPHA).limit_denominator(10)
    level = slope = Fraction(0)
    for action, loss in rows:
        amount = loss - alpha
        amount *= 1 + tolerance if amount < 0 else 1
        level += amount * safe[action] / mixture[action]
        slope += amount * optimized[action] / mixture[action]
    roots = []
    for action in actions:
        top = [(1 - alpha) * policy[action] / mixture[action] for policy in (safe, optimized)]
        if level + top[0] > 0:
            return None
        if slope + top[1] > 0:
            roots.append(-(level + top[0]) / (slope + top[1]))
    return min(roots, default=Fraction(-1))


def calibrations(rows, safe, optimized, mixture, family, parts=2):
    """The calibrations of memory and of parts."""
    taken = np.array([action for action, _ in rows])

    def logs(policy):
        return np.log([float(each) for each in policy])

    tables = {"log_safe": logs(safe), "log_optimized": logs(optimized), "log_mix": logs(mixture)}
    columns = {name: each[taken] for name, each in tables.items()}
    columns["loss"] = np.array([float(loss) for _, loss in rows])
    draws = {name: np.tile(each, 2) for name, each in tables.items()}
    draws["source"] = np.repeat(["safe", "optimized"], ACTIONS)
    share = 0.25
    log = tether.Log(**columns, safe_share=share)
    in_memory = tether.calibrate(log, tether.Proposals(**draws), alpha=ALPHA, family=family)

    def source(rows):
        def visit(kernel):
            edges = np.linspace(0, len(rows["log_safe"]), parts + 1).astype(int)
            for start, stop in pairwise(edges):
                if start < stop:
                    yield kernel.partial({name: rows[name][start:stop] for name in kernel.columns})

        return visit

    scanned = tether.calibrate(
        tether.Log.scan(source(columns), context=None, log_mix="log_mix", safe_share=share),
        tether.Proposals.scan(source(draws), context=None, log_mix="log_mix"),
        alpha=ALPHA,
        family=family,
    )
    return in_memory, scanned


def check_equal(in_memory, scanned):
    assert scanned.exists == in_memory.exists
    if scanned.log_beta != in_memory.log_beta:
        assert scanned.log_beta == pytest.approx(in_memory.log_beta, abs=1e-10, rel=0)


def policies(seed, count):
    """Policies of rational probabilities, at least a twentieth each."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(1, 8, size=(count, ACTIONS))
    return [[Fraction(int(each), int(row.sum())) for each in row] for row in drawn]


losses = st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 10), Fraction(3, 5), Fraction(1)])
seeds = st.integers(0, 10**6)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, times=st.integers(1, 4), family=st.sampled_from(["mix", "clip"]))
def test_a_tie_of_round_numbers_passes_by_the_tolerance(seed, times, family):
    """With 3·k − 1 harms in 10·k − 1 rows that weigh the same, the sums are equal at zero."""
    rng = np.random.default_rng(seed)
    (optimized,) = policies(seed, 1)
    safe = [Fraction(each, 12) for each in (4, 5, 1, 2)]
    mixture = [Fraction(each, 20) for each in (4, 5, 5, 6)]  # the first two have ratios of 5/3
    harms, zeros = 3 * times - 1, 7 * times
    taken = rng.integers(2, size=harms + zeros).tolist()
    rows = list(zip(taken, [Fraction(1)] * harms + [Fraction(0)] * zeros, strict=True))
    expected = exact_root(rows, range(ACTIONS), safe, optimized, mixture)
    in_memory, scanned = calibrations(rows, safe, optimized, mixture, family)
    assert in_memory.exists
    check_equal(in_memory, scanned)
    if family == "mix":
        assert not 0 < expected < Fraction(1, 10**12)
        check_root(in_memory, expected)
        check_root(scanned, expected)


def check_root(found, expected):
    if expected < 0:
        assert found.beta == np.inf
    else:
        assert found.log_beta == pytest.approx(float(np.log(float(expected))), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    seed=seeds,
    drawn=st.lists(st.tuples(st.integers(0, ACTIONS - 1), losses), min_size=3, max_size=25),
    family=st.sampled_from(["mix", "clip"]),
)
def test_a_policy_that_was_found_on_the_same_rows_is_a_reference_that_passes(seed, drawn, family):
    """The condition holds by exactly zero at the root, and so at a beta of zero against it."""
    safe, first, second, other = policies(seed, 4)
    mixture = [(one + 3 * two) / 4 for one, two in zip(safe, other, strict=True)]
    beta = exact_root(drawn, range(ACTIONS), safe, first, mixture)
    if beta is None or beta <= 0:
        return
    last = [(one + beta * two) / (1 + beta) for one, two in zip(safe, first, strict=True)]
    if family == "mix":
        assert exact_root(drawn, range(ACTIONS), last, second, mixture) is not None
    in_memory, scanned = calibrations(drawn, last, second, mixture, family)
    assert in_memory.exists
    check_equal(in_memory, scanned)


def test_a_case_that_rounding_decided():
    """Found by a run against its last policy: parts had no beta, memory one of e^−36."""
    drawn = [(0, Fraction(0))] * 9 + [(1, Fraction(1, 10))] * 4 + [(2, Fraction(3, 5))] * 3
    drawn += [(3, Fraction(1))]
    decided = set()
    for seed in range(30):
        safe, first, second, other = policies(seed, 4)
        mixture = [(one + 3 * two) / 4 for one, two in zip(safe, other, strict=True)]
        beta = exact_root(drawn, range(ACTIONS), safe, first, mixture)
        if beta is None or beta < 0:
            continue
        last = [(one + beta * two) / (1 + beta) for one, two in zip(safe, first, strict=True)]
        in_memory, scanned = calibrations(drawn, last, second, mixture, "mix")
        check_equal(in_memory, scanned)
        assert in_memory.exists
        decided.add(in_memory.beta < 1e-9)
    assert True in decided, "some must be held at the reference"


def test_many_calibrations_on_the_same_rows_do_not_use_the_tolerance_up():
    """Each takes the last one's policy as its reference, in floats."""
    rng = np.random.default_rng(0)
    drawn = [(int(each), Fraction(int(each), 7)) for each in rng.integers(ACTIONS, size=30)]
    seed = next(
        seed
        for seed in range(100)
        if (exact_root(drawn, range(ACTIONS), *policies(seed, 2), policies(seed, 1)[0]) or 0) > 0
    )
    safe, optimized = ([float(p) for p in policy] for policy in policies(seed, 2))
    mixture, reference = safe, safe
    for number in range(60):
        in_memory, _ = calibrations(drawn, reference, optimized, mixture, "mix")
        assert in_memory.exists
        assert (in_memory.beta < 10 * LEAST_SLACK * len(drawn)) == (number > 0)
        pairs = zip(reference, optimized, strict=True)
        reference = [(p + in_memory.beta * q) / (1 + in_memory.beta) for p, q in pairs]
