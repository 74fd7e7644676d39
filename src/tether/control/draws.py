"""Which draws a row has, and what it costs that rows share them.

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
told by the draws themselves. Of many millions of rows a share of the groups is looked at, whole
groups, chosen by their draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from tether._core.arrays import Floats, Integers
from tether._core.rows import BLOCK, Block, Rows, hash_rows
from tether.control.bins import scores
from tether.control.engine import LAST, Problem
from tether.control.families import DEFAULT_BUDGET
from tether.control.kernels import BudgetedKernel, few_draws
from tether.control.log import Log, Proposals

T = TypeVar("T")

MAX_STANDARD_ERRORS = 6.0  # a normalizer further above 1 than this is an error, not chance
MOST_KEPT = 1 << 20  # about how many rows are kept in memory to find those that share draws


class Changed(Rows):
    """Rows whose blocks are changed when they are read."""

    def __init__(self, rows: Rows, change: Callable[[Block], Block]) -> None:
        self._rows, self._change, self.names = rows, change, rows.names

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> Block:
        """All rows as one block."""
        return self._change(self._rows.columns)

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """The changed blocks."""
        return map(self._change, self._rows.blocks(size))

    def map(self, kernel: Callable[[Block], T], size: int = BLOCK) -> Iterator[T]:
        """What a kernel returns for each changed block."""
        return self._rows.map(partial(_after, self._change, kernel), size)


def _after(change: Callable[[Block], Block], kernel: Callable[[Block], T], block: Block) -> T:
    return kernel(change(block))


@dataclass(frozen=True)
class Match:
    """Which context each row and each draw is in; one context for all where there are none."""

    row: Integers
    draw: Integers
    rows: Integers
    """How many rows each context has."""
    counts: Integers
    """How many draws of the safe (first) and the optimized policy each context has."""
    total: int
    """How many rows there are."""

    @property
    def foreseeing(self) -> tuple[float, float]:
        """How many draws of each policy the next action is foreseen by.

        With m_x draws in a context that has a share p_x of the rows, the smallest m_x/p_x.
        """
        used = self.rows > 0
        safe, optimized = (self.counts[:, used] / self.rows[used]).min(axis=1) * self.total
        return float(safe), float(optimized)


def match(log: Log, proposals: Proposals) -> Match:
    """The contexts of rows and draws; an error if a context of the log has no draws."""
    if log.context is None or proposals.context is None:
        if log.contextual or proposals.context is not None:
            present, lacking = ("log", "proposals") if log.contextual else ("proposals", "log")
            raise ValueError(f"the {present} has contexts but the {lacking} has none; give both")
        none, drawn = np.zeros(1, np.int64), count_draws(proposals.rows).astype(np.int64)
        return Match(none, none, np.array([len(log)]), drawn[:, None], len(log))
    if (log.context.dtype.kind in "US") != (proposals.context.dtype.kind in "US"):
        raise TypeError(
            f"context is {log.context.dtype} in the log and {proposals.context.dtype} in the "
            f"proposals: labels must have the same type to be matched"
        )
    known, draw = np.unique(proposals.context, return_inverse=True)
    row = np.minimum(np.searchsorted(known, log.context), len(known) - 1)
    absent = known[row] != log.context
    if absent.any():
        first = log.context[np.argmax(absent)]
        raise ValueError(
            f"proposals has no draw in context {first!s} of the log "
            f"({len(np.unique(log.context[absent]))} such context(s))"
        )
    from_safe, size = proposals.from_safe, len(known)
    counts = np.array(
        [np.bincount(draw[drew], minlength=size) for drew in (from_safe, ~from_safe)], np.int64
    )
    return Match(row, draw, np.bincount(row, minlength=size), counts, len(log))


def count_draws(draws: Rows) -> Floats:
    """How many draws the safe and the optimized policy made."""

    def kernel(block: Block) -> dict[str, Any]:
        safe = int(block["from_safe"].sum())
        return {"counts": np.array([safe, len(block["from_safe"]) - safe], dtype=np.float64)}

    return np.asarray(draws.reduce(kernel, {"counts": "sum"})["counts"], dtype=np.float64)


def with_draws(
    log: Log, proposals: Proposals | None, budget: int | None
) -> tuple[Rows, int, tuple[float, float], bool]:
    """Rows that carry the draws of their contexts, the budget, `foreseeing`, and if rows share."""
    if "draws_safe" in log.rows.names:
        if proposals is not None:
            raise ValueError("proposals are not needed: the rows have draws of their own")
        block = next(iter(log.rows.blocks(1)))
        safe, optimized = block["draws_safe"].shape[1], block["draws_optimized"].shape[1]
        budget = min(safe, optimized, DEFAULT_BUDGET) if budget is None else budget
        if min(safe, optimized) < budget:
            raise ValueError(few_draws(budget, safe, optimized))
        largest = sharing(log.rows)
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
    columns = {**log.rows.columns}
    tables: dict[str, Floats] = {}
    possible, base = proposals.log_safe > -np.inf, None
    with np.errstate(invalid="ignore"):  # a draw that the safe policy cannot make is rejected
        ratio = np.where(possible, proposals.log_optimized - proposals.log_safe, np.inf)
        if proposals.log_mix is not None:
            base = np.where(possible, proposals.log_safe - proposals.log_mix, -np.inf)
    for k, name in enumerate(("safe", "optimized")):
        chosen = np.flatnonzero(proposals.from_safe if name == "safe" else ~proposals.from_safe)
        chosen = chosen[np.argsort(draw[chosen], kind="stable")]
        start = np.cumsum(matched.counts[k]) - matched.counts[k]
        columns[f"cell_{name}"] = start[context] + group * own * budget
        tables[f"draws_{name}"] = ratio[chosen]
        if base is not None:
            tables[f"base_{name}"] = base[chosen]
    if base is None:  # the largest ratio that a draw of the context has
        top = np.full(len(matched.rows), -np.inf)
        np.maximum.at(top, draw[possible], ratio[possible])
        columns["draws_top"] = top[context]
    dealt = Changed(Rows(columns), partial(_dealt, tables, own * budget))
    if base is not None:  # only dealt draws are looked at
        matched = replace(matched, counts=np.stack([groups * own * budget] * 2))
    return dealt, budget, matched.foreseeing, bool((groups < matched.rows).any())


def _dealt(tables: dict[str, Floats], width: int, block: Block) -> Block:
    """The rows of a block with the draws of their cells."""
    found = {name: column for name, column in block.items() if name != "cell_optimized"}
    for name, table in tables.items():
        cell = block["cell_" + name.rpartition("_")[2]]
        found[name] = table[cell[:, None] + np.arange(width)]
    return found


def check_normalizer(proposals: Proposals, matched: Match) -> None:
    """Refuse draws that do not come from the policies whose log-probabilities they carry.

    The integral of the optimized density over the actions of the safe policy is at most one. An
    estimate clearly above one means that the distribution scored is not the one sampled from.
    """
    counts = matched.counts.astype(np.float64)
    if not counts[0].any():
        return  # each draw contributes optimized/(n·optimized): the estimate is 1
    rows = proposals.rows
    if len(matched.draw) > 1:
        n_safe, n_optimized = counts[:, matched.draw]
        rows = Rows({**rows.columns, "n_safe": n_safe, "n_optimized": n_optimized})

    def kernel(block: Block) -> dict[str, Any]:
        n_safe, n_optimized = block.get("n_safe", counts[0]), block.get("n_optimized", counts[1])
        with np.errstate(invalid="ignore", over="ignore"):
            ratio = np.exp(block["log_optimized"] - block["log_safe"])
            terms = (n_safe + n_optimized) / (n_safe / ratio + n_optimized)
        terms = np.where(np.isnan(terms), 0.0, terms)
        return {"sums": np.array([len(terms), terms.sum(), (terms * terms).sum()])}

    with np.errstate(divide="ignore"):
        size, total, squares = rows.reduce(kernel, {"sums": "sum"})["sums"]
    mean = total / size
    # A few draws may agree by chance, so a standard deviation below one is not trusted.
    error = np.sqrt(max(squares / size - mean**2, 1.0) / size)
    if not mean <= 1 + MAX_STANDARD_ERRORS * error:
        raise ValueError(
            f"proposals: the normalizer comes out as {mean:.4g} ± {error:.2g} and can be at most "
            f"1: the proposals were not drawn from the policies whose log-probabilities they carry"
        )


# ---- shared draws --------------------------------------------------------------------------------


def _keys(block: Block) -> Any:
    """A number for the draws of each row: equal for rows that share them."""
    if "cell_safe" in block:  # dealt out in memory
        return block["cell_safe"].astype(np.uint64)
    return hash_rows((block["draws_safe"], block["draws_optimized"]))


def _sampled(block: Block, rows: int) -> tuple[Any, Any]:
    """The keys of whole groups, of about a million rows, and the rows that have them."""
    keys = _keys(block)
    chosen = np.flatnonzero(keys % np.uint64(max(1, rows // MOST_KEPT)) == 0)
    return keys[chosen], chosen


def sharing(rows: Rows) -> int:
    """How many rows share their draws, of those that share them with the most others."""
    count = len(rows)
    found = rows.reduce(lambda block: {"keys": _sampled(block, count)[0]}, {"keys": "concat"})
    keys = found["keys"]
    return int(np.unique(keys, return_counts=True)[1].max()) if len(keys) else 1


def shared_ratio_error(problem: Problem, log_beta: float) -> float:
    """The factor g at one beta, the largest of any constraint; 1 where no rows share draws."""
    kernel, count = problem.kernel, len(problem.rows)
    if not (problem.shares_draws and np.isfinite(log_beta) and isinstance(kernel, BudgetedKernel)):
        return 1.0
    step = max(1, count // MOST_KEPT)

    def terms(block: Block) -> dict[str, Any]:
        weight, slope, noise = _weights_and_slopes(kernel, block, log_beta)
        keys, chosen = _sampled(block, count)
        excess = [each.excess(block) for each in problem.constraints]
        amounts = np.concatenate([np.maximum((each, -each), 0.0) for each in excess])
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
    count = np.arange(budget)[:, None]
    powers = (1 - mean) ** np.append(count, [[budget]], axis=0)
    slope = -(count[1:] * powers[: budget - 1]).sum(axis=0)
    return powers[:-1].sum(axis=0), powers[-1], slope, -budget * powers[-2]
