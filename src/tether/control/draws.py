"""Clip weighed by stored draws: which draws a row has, and what it costs that rows share them.

No weight may divide by an estimate of ψ, since E[1/ψ̂] > 1/ψ. With acc the acceptance probability
of a proposal, the density of budgeted clip is r·acc·E[S] + E[D]·safe, where
S = Σ_{k<N} Π_{j≤k}(1 − acc_j) and D = Π_{j≤N}(1 − acc_j) over N fresh proposals of the proposing
policy r. S and D are plain averages over stored draws, so the weight is unbiased, at any N ≥ 1.

A log in memory has proposals by context, and a context deals its draws out to its rows, in sets of
the budget: every row has as many sets of its own as there are for all, and where there are fewer
sets than rows, rows share them evenly. A log in files has its draws beside its rows.

Unbiased weights are exact if every row has draws of its own. Rows that share draws share their
noise: the weight of all of them together is multiplied by a random factor, which more rows do not
average out. The condition compares P, the weighted sum over rows with a loss above alpha, with N,
that over rows below it, and E[N/P] exceeds the ratio of the expectations by about the relative
variance of P. So P ≤ N is replaced by P·g ≤ N/g with g² = 1 + var P/P² + var N/N².

With a the acceptance probability of a proposal, p its mean and M draws of a row, a weight
m·S(p) + D(p) changes by (m·S′ + D′)·dp, and dp has variance var(a)/M, common to the rows that share
the draws; what each row would have with draws of its own is taken off. Rows that share draws are
told by the draws themselves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import comb
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import Block, Rows, hash_rows
from tether.control.columns import Changed, check_normalizer, match, ratios_of_draws
from tether.control.engine import LAST, Problem, Search, log_of, scores, search
from tether.control.families import DEFAULT_BUDGET
from tether.control.kernels import Kernel, Weighed, budgeted, ends, heaviest, told_apart
from tether.control.log import Log, Proposals

SHARING_STEPS = 4  # how often beta is found again to allow for draws that rows share
MAX_BUDGET = 512  # with about twice as many proposals, polynomials leave the range of floats


class BudgetedKernel(Kernel):
    """Clip that gives up after `budget` proposals, weighed by averages over stored draws.

    `draws_safe` and `draws_optimized` are log ratios of fresh draws in the context of each row;
    with a mixture there are their log bases. With a blend, draws are mixed draws of both.
    """

    candidates = from_draws = True
    size = 256

    def __init__(self, budget: int) -> None:
        if budget > MAX_BUDGET:
            raise ValueError(
                f"family: a budget of {budget} draws per action needs tables of all actions; with "
                f"stored draws it is at most {MAX_BUDGET}"
            )
        self.budget = budget

    def weigh(self, block: Block, t: Floats, problem: Problem) -> Weighed:
        """Unbiased weights from the draws of every row."""
        ratio, base = scores(block)
        safe, optimized = self.draws(block)
        drawn = np.hstack((safe, optimized))
        drawn = np.where(drawn < np.inf, drawn, -np.inf)  # what safe cannot do is always rejected
        if not drawn.max() <= LAST:
            raise ValueError(f"draws: log ratios must be at most {LAST:g}, got {drawn.max():g}")
        largest = block.get("draws_top", drawn.max(axis=1))
        low, high = ends(np.column_stack((drawn, largest, ratio)))
        near, place = told_apart(t, max(low, 0.25), max(high, 0.0))
        tries, fallback = self.averages(self.rejected(safe, optimized, near, problem.blend))
        against_safe = partial(budgeted, near[:, None], tries, fallback)
        most = against_safe(largest)
        if "base_safe" in block:
            bases = np.hstack((block["base_safe"], block["base_optimized"]))
            most = heaviest(against_safe, drawn, bases)
        return Weighed(base + against_safe(ratio), most, tries, place)

    def log_limit(self, problem: Problem, t: Floats) -> Floats:
        """S is at most the budget, and D at most one."""
        return np.asarray(np.logaddexp(np.log(self.budget) + np.maximum(t, 0.0), 0.0))

    def draws(self, block: Block) -> tuple[Floats, Floats]:
        """As many draws of each policy as whole budgets can be made of."""
        safe, optimized = block["draws_safe"], block["draws_optimized"]
        width = min(safe.shape[1], optimized.shape[1]) // self.budget * self.budget
        if not width:
            raise ValueError(few_draws(self.budget, safe.shape[1], optimized.shape[1]))
        return safe[:, :width], optimized[:, :width]

    def rejected(self, safe: Floats, optimized: Floats, t: Floats, blend: float) -> Floats:
        """The probability that each proposal is rejected (draws × betas × rows)."""
        safe, optimized, at = safe.T[:, None], optimized.T[:, None], t[:, None]
        below = int(np.searchsorted(t, 0.0))  # the safe policy proposes where β < 1
        proposed = _rejected(safe, at[:below]), _rejected(at[below:], optimized)
        found = np.concatenate(proposed, axis=1)
        if blend:
            found[:, below:] += blend * (_rejected(at[below:], safe) - found[:, below:])
        return found

    def averages(self, rejected: Floats) -> tuple[Floats, Floats]:
        """Logs of S, averaged over all orders of the proposals, and of D (betas × rows).

        The average of Π(1 − acc) over all subsets of k proposals is e_k/C(N, k), with e_k the
        elementary symmetric polynomial of the rejection probabilities.
        """
        rejected = rejected.reshape(-1, self.budget, *rejected.shape[1:])
        sums = np.zeros((self.budget + 1, len(rejected), *rejected.shape[2:]))
        sums[0] = 1.0
        for j in range(self.budget):
            sums[1 : j + 2] += rejected[:, j] * sums[: j + 1]
        shares = [1 / comb(self.budget, k) for k in range(self.budget)]
        tries = np.tensordot(shares, sums[:-1], 1).mean(axis=0)
        return np.log(np.clip(tries, 1.0, self.budget)), log_of(sums[-1].mean(axis=0))


def few_draws(budget: int, safe: int, optimized: int) -> str:
    """Why a budget cannot be weighed."""
    return (
        f"proposals: a budget of {budget} draws per action needs as many fresh draws of each "
        f"policy in every context, got {safe} of the safe policy and {optimized} of the optimized "
        f"one (tether.make_proposals makes both)"
    )


def _rejected(log_kept: Floats, log_limit: Floats) -> Floats:
    """1 − min(1, kept/limit) from logs; nothing is rejected where both are 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.fmin(log_kept - log_limit, 0.0)
    return np.asarray(1.0 - np.exp(gap))


# ---- which draws a row has ---------------------------------------------------------------------


def with_draws(
    log: Log, proposals: Proposals | None, budget: int | None
) -> tuple[Rows, int, tuple[float, float], bool]:
    """Rows that carry the draws of their contexts, the budget, `foreseeing`, whether rows share."""
    if "draws_safe" in log.rows.names:
        if proposals is not None:
            raise ValueError("proposals are not needed: the rows have draws of their own")
        block = next(iter(log.rows.blocks(1)))
        safe, optimized = block["draws_safe"].shape[1], block["draws_optimized"].shape[1]
        budget = min(safe, optimized, DEFAULT_BUDGET) if budget is None else budget
        keys = log.rows.reduce(lambda block: {"keys": _keys(block)}, {"keys": "concat"})["keys"]
        largest = int(np.unique(keys, return_counts=True)[1].max())  # of groups that share draws
        per_draw = len(log) / largest
        return log.rows, budget, (safe * per_draw, optimized * per_draw), largest > 1
    if proposals is None:
        raise ValueError(
            "the log has contexts, so proposals are needed: draws of both policies in each context "
            "(or log_safe_all and log_optimized_all for a finite action set). Without them: family "
            "'mix' (--family mix), or tether.decide (tether decide), with a table and a model"
        )
    matched = match(log, proposals)
    check_normalizer(proposals, matched)
    fewest = matched.counts[:, matched.rows > 0].min(axis=0)
    budget = int(np.clip(fewest.min(), 1, DEFAULT_BUDGET)) if budget is None else budget
    if fewest.min() < budget:
        short = np.flatnonzero(matched.rows > 0)[fewest.argmin()]
        raise ValueError(few_draws(budget, *matched.counts[:, short]))
    sets = matched.counts.min(axis=0) // budget
    own = max(1, int((sets[matched.rows > 0] // matched.rows[matched.rows > 0]).min()))
    groups = np.clip(sets // own, 1, np.maximum(matched.rows, 1))
    context = np.broadcast_to(matched.row, len(log))
    order = np.argsort(context, kind="stable")
    rank = np.empty(len(log), dtype=np.int64)
    before = np.cumsum(matched.rows) - matched.rows
    rank[order] = np.arange(len(log)) - np.repeat(before, matched.rows)
    group = rank % groups[context]
    draw = np.broadcast_to(matched.draw, len(proposals))
    columns, tables = {**log.rows.columns}, {}
    scores = (proposals.log_safe, proposals.log_optimized, proposals.log_mix)
    ratio, *base = ratios_of_draws(*scores)
    for k, name in enumerate(("safe", "optimized")):
        chosen = np.flatnonzero(proposals.from_safe if name == "safe" else ~proposals.from_safe)
        chosen = chosen[np.argsort(draw[chosen], kind="stable")]
        start = np.cumsum(matched.counts[k]) - matched.counts[k]
        columns[f"cell_{name}"] = start[context] + group * own * budget
        tables[f"draws_{name}"] = ratio[chosen]
        tables |= {f"base_{name}": each[chosen] for each in base}
    if base:  # only dealt draws are looked at
        matched = replace(matched, counts=np.stack([groups * own * budget] * 2))
    else:  # the largest ratio that a draw of the context has
        top = np.full(len(matched.rows), -np.inf)
        np.maximum.at(top, draw, np.where(ratio < np.inf, ratio, -np.inf))
        columns["draws_top"] = top[context]
    dealt = Changed(Rows(columns), partial(_dealt, tables, own * budget))
    return dealt, budget, matched.foreseeing, bool((groups < matched.rows).any())


def _dealt(tables: dict[str, Floats], width: int, block: Block) -> Block:
    """The rows of a block with the draws of their cells."""
    found = {name: column for name, column in block.items() if name != "cell_optimized"}
    for name, table in tables.items():
        cell = block["cell_" + name.rpartition("_")[2]]
        found[name] = table[cell[:, None] + np.arange(width)]
    return found


# ---- shared draws --------------------------------------------------------------------------------


def _keys(block: Block) -> Any:
    """A number for the draws of each row: equal for rows that share them."""
    if "cell_safe" in block:  # dealt out in memory
        return block["cell_safe"]
    return hash_rows((block["draws_safe"], block["draws_optimized"]))


def search_again(found: Search) -> Search:
    """A search whose constraints allow for shared draws at the beta that it finds itself."""
    stated = found.problem.constraints
    for _ in range(SHARING_STEPS):
        problem = found.problem
        shared = shared_ratio_error(problem, min(found.largest().values()))
        if stated[0].ratio_error * shared <= problem.constraints[0].ratio_error:
            break
        wrong = (replace(each, ratio_error=each.ratio_error * shared) for each in stated)
        found = search(replace(problem, constraints=tuple(wrong)))
    return found


def shared_ratio_error(problem: Problem, log_beta: float) -> float:
    """The factor g at one beta, the largest of any constraint; 1 where no rows share draws."""
    kernel = problem.kernel
    if not (problem.shares_draws and np.isfinite(log_beta) and isinstance(kernel, BudgetedKernel)):
        return 1.0

    def terms(block: Block) -> dict[str, Any]:
        ratio, base = scores(block)
        at, own = np.array([log_beta]), kernel.draws(block)
        rejected = kernel.rejected(*own, at, problem.blend)[:, 0]
        draws, mean = len(rejected), rejected.mean(axis=0)
        # One draw has no spread of its own: then the largest of a number in [0, 1].
        noise = rejected.var(axis=0, ddof=1) if draws > 1 else 0.25
        proposed = np.exp(np.minimum(ratio, log_beta) - min(log_beta, 0.0) + base)
        values, slopes = expected_averages(mean, kernel.budget)
        parts = np.stack((proposed, np.exp(base)))
        move = (parts * slopes).sum(axis=0) * np.sqrt(noise / draws)
        excess = [each.excess(block) for each in problem.constraints]
        amounts = np.concatenate([np.maximum((each, -each), 0.0) for each in excess])
        total = (amounts * (parts * values).sum(axis=0)).sum(axis=1)
        return {"total": total, "keys": _keys(block), "moves": amounts * move}

    how = {"total": "sum", "keys": "concat", "moves": "concat"}
    found = problem.rows.reduce(terms, how, 4096)
    _, group = np.unique(found["keys"], return_inverse=True)
    relative = np.zeros(len(found["total"]))
    for k, (moves, total) in enumerate(zip(found["moves"], found["total"], strict=True)):
        if total > 0:
            moved = np.bincount(group, moves) ** 2 - np.bincount(group, moves**2)
            relative[k] = np.maximum(moved, 0.0).sum() / total**2
    return float(np.sqrt(1 + relative.reshape(-1, 2).sum(axis=1).max()))


def expected_averages(rejected: Floats, budget: int) -> tuple[Floats, Floats]:
    """S and D for proposals that are rejected with a probability, and their derivatives in it."""
    count = np.arange(budget)[:, None]
    powers = rejected**count
    slope = (count[1:] * powers[:-1]).sum(axis=0)
    values = np.stack((powers.sum(axis=0), rejected**budget))
    return values, np.stack((slope, budget * powers[-1]))
