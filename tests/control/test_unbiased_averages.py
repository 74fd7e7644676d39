"""Averages over fresh proposals: against all orders, and unbiased for what a sampler does."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.direct_formulas import LONG
from tether._core.blocks import BLOCK_ROWS
from tether.control.context_draws import ContextDraws
from tether.control.densities import BudgetedDensities
from tether.control.proposal_blocks import ProposalBlocks
from tether.control.unbiased_averages import (
    MAX_POLYNOMIAL_BUDGET,
    _by_polynomials,
    _by_quadrature,
    tries_and_fallback,
)


def averages(log_accept):
    """S and D of sets of proposals, given their log acceptance probabilities."""
    budget, sets = log_accept.shape
    found = tries_and_fallback(lambda part: -np.expm1(log_accept[:, part]), budget, sets)
    assert [each[sets:].tolist() for each in found] == [[budget], [1]]
    return tuple(each[:sets] for each in found)


def all_orders(accept):
    """S over every order of the proposals, averaged, and D, in exact arithmetic."""
    reject = [1 - Fraction(each) for each in accept]
    orders = list(itertools.permutations(reject))
    tries = Fraction(0)
    for order in orders:
        survived = Fraction(1)
        for each in order:
            tries += survived  # proposal k is made if all before it were rejected
            survived *= each
    return tries / len(orders), survived


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None)
def test_against_all_orders(accept):
    expected = all_orders(accept)
    with np.errstate(divide="ignore"):
        tries, fallback = averages(np.log(np.array(accept))[:, None])
    assert tries[0] == pytest.approx(float(expected[0]), rel=1e-12)
    assert fallback[0] == pytest.approx(float(expected[1]), rel=1e-12, abs=1e-15)


def subset_averages(log_accept):
    """S as the sum of e_k/C(N, k) for k < N, with the recursion of elementary polynomials."""
    sums = [LONG(1)]
    for reject in -np.expm1(log_accept.astype(LONG)):
        sums = [a + reject * b for a, b in zip([*sums, LONG(0)], [LONG(0), *sums], strict=True)]
    count, tries = LONG(1), LONG(0)
    for k in range(len(log_accept)):
        tries += sums[k] / count
        count = count * (len(log_accept) - k) / (k + 1)
    return float(tries), float(sums[-1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 64), st.floats(0, 40))
@settings(max_examples=150, deadline=None)
def test_against_symmetric_polynomials(seed, budget, depth):
    """Also with many proposals, and with acceptance probabilities far below one."""
    log_accept = -depth * np.random.default_rng(seed).random((budget, 3))
    tries, fallback = averages(log_accept)
    for column in range(3):
        expected = subset_averages(log_accept[:, column])
        assert tries[column] == pytest.approx(expected[0], rel=1e-11)
        assert fallback[column] == pytest.approx(expected[1], rel=1e-9, abs=1e-300)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
@settings(deadline=None)
def test_range(seed, budget):
    rng = np.random.default_rng(seed)
    log_accept = np.minimum(rng.normal(size=(budget, 50)) * 10 ** rng.uniform(-9, 3), 0.0)
    tries, fallback = averages(log_accept)
    assert (tries >= 1).all()
    assert (tries <= budget).all()
    assert (fallback >= 0).all()
    assert (fallback <= 1).all()


def test_the_ends_of_the_range():
    for budget in (1, 2, 7, 16):
        accepted, rejected = np.zeros((budget, 2)), np.full((budget, 2), -np.inf)
        assert [part.tolist() for part in averages(accepted)] == [[1, 1], [0, 0]]
        tries, fallback = averages(rejected)
        assert tries == pytest.approx([budget, budget], rel=1e-13)
        assert fallback.tolist() == [1, 1]
        first = np.where(np.arange(budget) == 0, 0.0, -np.inf)[:, None]  # one of N is accepted
        tries, fallback = averages(first)
        assert tries == pytest.approx([(budget + 1) / 2])
        assert fallback.tolist() == [0]


def test_many_sets_are_handled_in_parts():
    rng = np.random.default_rng(1)
    log_accept = -rng.exponential(size=(3, BLOCK_ROWS))
    whole = averages(log_accept)
    order = rng.permutation(log_accept.shape[1])
    moved = averages(log_accept[:, order])
    for one, other in zip(whole, moved, strict=True):
        assert one[order] == pytest.approx(other, rel=1e-13)


@pytest.mark.parametrize("budget", [2, 31, MAX_POLYNOMIAL_BUDGET])
def test_polynomials_and_their_integral_agree(budget):
    rejected = np.random.default_rng(budget).random((budget, 40)) ** 0.1
    found, expected = _by_polynomials(rejected), _by_quadrature(rejected)
    assert found[0] == pytest.approx(expected[0], rel=1e-11)
    assert found[1] == pytest.approx(expected[1], rel=1e-11)


def test_more_proposals_than_polynomials_fit_into_floats():
    tries, fallback = averages(np.full((3000, 2), np.log(0.001)))
    assert tries == pytest.approx([(1 - 0.999**3000) / 0.001] * 2, rel=1e-10)
    assert fallback == pytest.approx([0.999**3000] * 2, rel=1e-10)


def served(safe, optimized, beta, budget):
    """What a sampler with a budget does, enumerated: propose, keep or not, else the safe policy."""
    propose = safe if beta < 1 else optimized
    keep = np.minimum(optimized, beta * safe) / (min(beta, 1.0) * propose)
    rejected = 1 - (propose * keep).sum()
    kept = sum(rejected**k * propose * keep for k in range(budget))
    return kept + rejected**budget * safe


def expected_density(safe, optimized, drawn_optimized, log_beta, budget, blend):
    """The mean of the unbiased density at every action, over all that could be proposed.

    `optimized` is scored and `drawn_optimized` drawn from: they differ by the blend.
    """
    actions = len(safe)
    family = tether.BudgetedClip(budget)
    sequences = list(itertools.product(range(actions), repeat=budget))
    total = np.zeros(actions)
    for safe_ones, optimized_ones in itertools.product(sequences, sequences):
        drawn = np.array(safe_ones + optimized_ones)
        from_safe = np.arange(2 * budget) < budget
        log_safe, log_optimized = np.log(safe[drawn]), np.log(optimized[drawn])
        draws = ContextDraws(log_safe, log_optimized, log_safe, log_safe, start=np.zeros(1, int),
                             row=np.zeros(1, int), from_safe=from_safe)  # fmt: skip
        blocks = ProposalBlocks.build(draws, budget)
        densities = BudgetedDensities(family, blocks, blend)
        cell = np.zeros(actions, dtype=int)
        log_density = densities.log_density(np.log(safe), np.log(optimized), cell, log_beta)
        chance = safe[list(safe_ones)].prod() * drawn_optimized[list(optimized_ones)].prod()
        total += chance * np.exp(log_density)
    return total


@pytest.mark.parametrize("log_beta", [-2.0, -0.3, np.nextafter(0.0, -1.0), 0.0, 0.2, 1.5])
@pytest.mark.parametrize(("actions", "budget"), [(3, 1), (3, 2), (2, 3)])
def test_the_expected_density_is_what_is_served(actions, budget, log_beta):
    """Exactly, for any number of proposals: every sequence of proposals is enumerated."""
    rng = np.random.default_rng(actions + 10 * budget)
    safe, optimized = rng.dirichlet(np.ones(actions), size=2)
    found = expected_density(safe, optimized, optimized, log_beta, budget, 0.0)
    assert found == pytest.approx(served(safe, optimized, np.exp(log_beta), budget), rel=1e-12)
    assert found.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("log_beta", [-1.0, 0.0, 0.7])
@pytest.mark.parametrize(("actions", "budget"), [(3, 1), (3, 2), (2, 3)])
def test_the_expected_density_of_a_blend_is_what_is_served(actions, budget, log_beta):
    """The optimized policy that is drawn from has zeros; its blend with the safe one is served."""
    rng = np.random.default_rng(50 + actions + 10 * budget)
    safe = rng.dirichlet(np.ones(actions))
    argmax = np.eye(actions)[1]
    blend = 0.2
    blended = (1 - blend) * argmax + blend * safe
    found = expected_density(safe, blended, argmax, log_beta, budget, blend)
    assert found == pytest.approx(served(safe, blended, np.exp(log_beta), budget), rel=1e-12)
    wrong = expected_density(safe, blended, argmax, log_beta, budget, 0.0)
    if log_beta == 0:  # proposals of the argmax alone are not those of the blend
        assert wrong != pytest.approx(found, rel=1e-3)
