"""Unbiased averages over fresh proposals: how often a sampler with a budget tries and gives up.

A sampler proposes up to N times, accepts proposal j with probability a_j, and takes an action of
the safe policy after N rejections. Two numbers describe it: the expected number of proposals up to
the one that is examined, and the probability that all are rejected,

    S = Σ_{k<N} Π_{j≤k} (1 − a_j),        D = Π_{j≤N} (1 − a_j).

N fresh proposals give one unbiased estimate of E[S] and E[D]. The order of the proposals does not
matter, so S is averaged over all orders, which keeps it unbiased and takes most of its noise away.
The average of Π over all subsets of k proposals is e_k/C(N, k), with e_k the elementary symmetric
polynomial of the 1 − a_j, and 1/C(N, k) = (N + 1)·∫ t^k (1 − t)^(N−k) dt on [0, 1]. Hence

    S + D = Σ_{k≤N} e_k/C(N, k) = (N + 1)·∫ Π_j (1 − t·a_j) dt,

the integral of a polynomial of degree N, which Gauss–Legendre quadrature with N/2 + 1 nodes gives
exactly. All its terms are positive.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tether._core.blocks import map_blocks
from tether._core.types import Floats

COLUMNS_PER_PART = 4096
"""How many sets of proposals are handled at once, so that intermediate products stay in cache."""


def tries_and_fallback(log_accept: Floats) -> tuple[Floats, Floats]:
    """S, averaged over all orders, and D of each set of proposals.

    Parameters
    ----------
    log_accept : ndarray of float
        Log acceptance probabilities, one row per proposal and one column per set.

    Returns
    -------
    tries, fallback : ndarray of float
        S, from 1 to the number of rows, and D, from 0 to 1, of each column.
    """
    budget, sets = log_accept.shape
    tries, fallback = np.empty(sets), np.empty(sets)
    nodes, weights = _quadrature(budget)

    def average(part: slice) -> None:
        accept = np.exp(log_accept[:, part])
        product = 1 - nodes * accept[0]
        for row in accept[1:]:
            product *= 1 - nodes * row
        fallback[part] = np.prod(-np.expm1(log_accept[:, part]), axis=0)
        tries[part] = (budget + 1) * (weights @ product) - fallback[part]

    map_blocks(average, sets, COLUMNS_PER_PART)
    # Rounding must not carry S out of its range: at its lower end a weight would change sign.
    return np.clip(tries, 1.0, budget), fallback


@lru_cache(maxsize=16)
def _quadrature(budget: int) -> tuple[Floats, Floats]:
    """Gauss–Legendre nodes (as a column) and weights on [0, 1], exact up to degree `budget`."""
    nodes, weights = np.polynomial.legendre.leggauss(budget // 2 + 1)
    return ((nodes + 1) / 2)[:, None], weights / 2
