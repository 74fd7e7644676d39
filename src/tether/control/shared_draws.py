"""What it costs that rows of a context share their draws.

Unbiased weights are exact if every row has draws of its own. Rows that share draws share their
noise: the weight of all of them together is multiplied by a random factor, which more rows do not
average out. The condition compares P, the weighted sum over rows with a loss above alpha, with N,
that over rows below it, and E[N/P] exceeds the ratio of the expectations by about the relative
variance of P. So P ≤ N is replaced by P·g ≤ N/g with g² = 1 + var P/P² + var N/N².

With a the acceptance probability of a proposal, p its mean and M draws of a row, a weight
m·S(p) + D(p) changes by (m·S′ + D′)·dp, and dp has variance var(a)/M, common to the rows that share
the draws; what each row would have with draws of its own is taken off. Rows that share draws are
told by the draws themselves. Of many millions of rows a share of the groups is looked at, whole
groups, chosen by their draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.rows import Block, Rows
from tether._core.types import Floats
from tether.control.engine import LAST, Problem
from tether.control.kernels import BudgetedKernel, scores

MOST_KEPT = 1 << 20
"""About how many rows are kept in memory to find those that share draws."""
HASH_SEED = 7


def _keys(block: Block) -> Any:
    """A number for the draws of each row: equal for rows that share them."""
    if "cell_safe" in block:  # dealt out in memory
        return block["cell_safe"].astype(np.uint64)
    drawn = np.hstack((block["draws_safe"], block["draws_optimized"])).astype(np.float64)
    odd = np.random.default_rng(HASH_SEED).integers(0, 1 << 63, drawn.shape[1], dtype=np.uint64)
    mixed = (np.ascontiguousarray(drawn).view(np.uint64) * (2 * odd + 1)).sum(axis=1)
    return mixed ^ (mixed >> np.uint64(29))


def _sampled(block: Block, rows: int) -> tuple[Any, Any]:
    """The keys of whole groups, of about a million rows, and the rows that have them."""
    keys = _keys(block)
    step = max(1, rows // MOST_KEPT)
    chosen = np.flatnonzero(keys % np.uint64(step) == 0)
    return keys[chosen], chosen


def sharing(rows: Rows) -> int:
    """How many rows share their draws, of those that share them with the most others."""
    count = len(rows)
    found = rows.reduce(lambda block: {"keys": _sampled(block, count)[0]}, {"keys": "concat"})
    keys = found["keys"]
    return int(np.unique(keys, return_counts=True)[1].max()) if len(keys) else 1


def shared_ratio_error(problem: Problem, log_beta: float) -> float:
    """The factor g at one beta, the largest of any constraint; 1 where no rows share draws."""
    kernel = problem.kernel
    if not problem.shares_draws or not np.isfinite(log_beta):
        return 1.0
    if not isinstance(kernel, BudgetedKernel):
        return 1.0
    count = len(problem.rows)
    step = max(1, count // MOST_KEPT)

    def terms(block: Block) -> dict[str, Any]:
        weight, slope, noise = _weights_and_slopes(kernel, block, log_beta)
        keys, chosen = _sampled(block, count)
        sides = [_sides(each.excess(block)) for each in problem.constraints]
        amounts = np.concatenate(sides)
        moves = amounts * (slope * np.sqrt(noise))
        return {"total": (amounts * weight).sum(axis=1), "keys": keys, "moves": moves[:, chosen]}

    how = {"total": "sum", "keys": "concat", "moves": "concat"}
    found = problem.rows.reduce(terms, how, 4096)
    _, group = np.unique(found["keys"], return_inverse=True)
    relative = np.zeros(len(found["total"]))
    for k, (moves, total) in enumerate(zip(found["moves"], found["total"], strict=True)):
        if total > 0 and len(moves):
            moved = np.bincount(group, moves) ** 2 - np.bincount(group, moves**2)
            relative[k] = step * np.maximum(moved, 0.0).sum() / total**2
    return float(np.sqrt(1 + relative.reshape(-1, 2).sum(axis=1).max()))


def _sides(excess: Floats) -> Floats:
    """The amounts of the rows above alpha, and of those below it, both without signs."""
    return np.array([np.maximum(excess, 0.0), np.maximum(-excess, 0.0)])


def _weights_and_slopes(
    kernel: BudgetedKernel, block: Block, log_beta: float
) -> tuple[Floats, Floats, Floats]:
    """Of each row its expected weight, how it changes with p, and the variance of p."""
    ratio, base = scores(block)
    t = np.clip([log_beta], -LAST, LAST)
    accept = 1 - kernel.rejected(*kernel.draws(block), t)[:, 0]
    draws, mean = len(accept), accept.mean(axis=0)
    # One draw has no spread of its own: then that of a coin with the same mean.
    spread = accept.var(axis=0, ddof=1) if draws > 1 else mean * (1 - mean)
    proposed = np.exp(np.minimum(ratio, log_beta) - min(log_beta, 0.0) + base)
    tries, fallback, tries_slope, fallback_slope = expected_averages(mean, kernel.budget)
    weight = proposed * tries + np.exp(base) * fallback
    return weight, proposed * tries_slope + np.exp(base) * fallback_slope, spread / draws


def expected_averages(mean: Floats, budget: int) -> tuple[Floats, Floats, Floats, Floats]:
    """S, D and their derivatives for proposals that are accepted with probability `mean`."""
    rejected = 1 - mean
    tries, slope = np.zeros(len(mean)), np.zeros(len(mean))
    power, previous = np.ones(len(mean)), np.zeros(len(mean))
    for count in range(budget):
        tries += power
        slope -= count * previous
        previous, power = power, power * rejected
    return tries, power, slope, -budget * previous
