"""Unbiased averages over fresh proposals: how often a sampler with a budget tries and gives up.

A sampler proposes up to N times, accepts proposal j with probability a_j, and takes an action of
the safe policy after N rejections. Two numbers describe it: the expected number of proposals up to
the one that is examined, and the probability that all are rejected,

    S = Σ_{k<N} Π_{j≤k} (1 − a_j),        D = Π_{j≤N} (1 − a_j).

N fresh proposals give one unbiased estimate of E[S] and E[D]. The order of the proposals does not
matter, so S is averaged over all orders, which keeps it unbiased and takes most of its noise away.
The average of Π over all subsets of k proposals is e_k/C(N, k), with e_k the elementary symmetric
polynomial of the rejection probabilities 1 − a_j, so

    S = Σ_{k<N} e_k/C(N, k),        D = e_N.

The polynomials follow from one proposal after the other, e_k ← e_k + (1 − a_j)·e_{k−1}, and all
terms are positive. With so many proposals that they leave the range of floats, the same sum is an
integral, because 1/C(N, k) = (N + 1)·∫ t^k (1 − t)^(N−k) dt on [0, 1]:

    S + D = (N + 1)·∫ Π_j (1 − t·a_j) dt,

of a polynomial of degree N, which Gauss–Legendre quadrature with N/2 + 1 nodes gives exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import comb

import numpy as np

from tether._core.blocks import BLOCK_ROWS, map_blocks
from tether._core.types import Floats

MAX_POLYNOMIAL_BUDGET = 512
"""With more than about twice as many proposals, the polynomials leave the range of floats."""


def tries_and_fallback(
    rejected: Callable[[slice], Floats], budget: int, sets: int
) -> tuple[Floats, Floats]:
    """S, averaged over all orders, and D of each set of proposals.

    Parameters
    ----------
    rejected : callable
        From a slice of the sets to their rejection probabilities 1 − a, one row per proposal and
        one column per set, in an array that may be written to.
    budget : int
        The number of proposals in a set.
    sets : int
        The number of sets.

    Returns
    -------
    tries, fallback : ndarray of float
        S, from 1 to the budget, and D, from 0 to 1, of each set; after these the largest there can
        be, of a set that is rejected as a whole.
    """
    tries, fallback = np.full(sets + 1, float(budget)), np.ones(sets + 1)
    average = _by_polynomials if budget <= MAX_POLYNOMIAL_BUDGET else _by_quadrature

    def fill(part: slice) -> None:
        tries[part], fallback[part] = average(rejected(part))

    map_blocks(fill, sets, max(1, BLOCK_ROWS // budget))
    # Rounding must not carry S out of its range: at its lower end a weight would change sign.
    return np.clip(tries, 1.0, budget, out=tries), fallback


def _by_polynomials(rejected: Floats) -> tuple[Floats, Floats]:
    """S and D from the symmetric polynomials e_1, e_2, … of each column."""
    budget = len(rejected)
    sums, product = np.empty_like(rejected), np.empty_like(rejected)
    sums[0] = rejected[0]
    for count in range(1, budget):
        own, more = rejected[count], product[:count]
        np.multiply(sums[:count], own, out=more)
        sums[count] = more[-1]
        sums[1:count] += more[:-1]
        sums[0] += own
    tries = np.ones(rejected.shape[1])
    for one, share in zip(sums[:-1], _subset_shares(budget), strict=True):
        one *= share
        tries += one
    return tries, sums[-1]


def _by_quadrature(rejected: Floats) -> tuple[Floats, Floats]:
    """The same from the integral."""
    budget = len(rejected)
    nodes, weights = _quadrature(budget)
    product = 1 - nodes * (1 - rejected[0])
    for own in rejected[1:]:
        product *= 1 - nodes * (1 - own)
    fallback = np.prod(rejected, axis=0)
    return (budget + 1) * (weights @ product) - fallback, fallback


@lru_cache(maxsize=16)
def _subset_shares(budget: int) -> tuple[float, ...]:
    """1/C(N, k) for 0 < k < N."""
    return tuple(1 / comb(budget, count) for count in range(1, budget))


@lru_cache(maxsize=16)
def _quadrature(budget: int) -> tuple[Floats, Floats]:
    """Gauss–Legendre nodes (as a column) and weights on [0, 1], exact up to degree `budget`."""
    nodes, weights = np.polynomial.legendre.leggauss(budget // 2 + 1)
    return ((nodes + 1) / 2)[:, None], weights / 2
