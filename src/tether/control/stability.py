"""Stability: how much the tethered policy moves when one row of the log is left out.

With β̂₋ᵢ the beta without row i, the row's weight is multiplied by a factor r_i = w_i(β̂₋ᵢ)/w_i(β̂),
and row i stands for the next action, which beta could not depend on. The calibrated sums of the
condition then change by at most max(α, B − α)·Σ w_i·|r_i − 1|, so the promise needs

    ε̂ = Σ_i share_i·|r_i − 1|.

Without row i, the condition loses the term (l_i − α)·w_i(β). Only grid points where that can change
the verdict are computed anew: a few around β̂.

The change of each row's own weight is what is measured. Without contexts a weight of clip lacks the
normalizing constant ψ, which cancels in the condition but changes with beta. There the quotient
ψ(β̂)/ψ(β̂₋ᵢ) is estimated from the m draws (or rows). It lies between 1 and the quotient of betas, in
which the share of what clip cuts decides; two standard errors of that share are at most 1/√m, so
e^(s/√m) − 1 is added for a step of s in log beta. The change never exceeds e^(K·s) − 1, with K the
smoothness of the family.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import Block
from tether.control.engine import COARSE, LARGEST_LOG, LAST, ROUNDING, Search, log_of, log_sum
from tether.control.kernels import ClipKernel

SAME = 1e-9  # log normalizers this close are the same


def instability(found: Search, log_beta: float, log_total: float) -> float:
    """ε̂ at the beta that was found, by one pass; `log_total` is the log of all weights there."""
    problem, kernel, parts = found.problem, found.problem.kernel, found.parts
    doubts = [np.logical_and(*part.doubts(problem.constraints)) for part in parts]
    doubt = [np.flatnonzero(each.any(axis=0)) for each in doubts]
    every = np.concatenate([part.t[which] for part, which in zip(parts, doubt, strict=True)])
    if not len(every):
        return 0.0
    t, back = np.unique(every, return_inverse=True)
    change = _Change(found, log_beta)

    def without_each(block: Block) -> dict[str, Any]:
        log_w = change.weigh(block, t)[back]
        rows = log_w.shape[1]
        without = np.full(rows, np.inf)
        for c, excess in enumerate(each.excess(block) for each in problem.constraints):
            fails = []
            split = np.split(log_w, np.cumsum([len(which) for which in doubt])[:-1])
            for part, which, own in zip(parts, doubt, split, strict=True):
                size = np.minimum(own - part.unit[c, which, None], LARGEST_LOG)
                term = excess * np.exp(size)
                fails.append(np.repeat(part.fails[c][:, None], rows, axis=1))
                fails[-1][which] = part.value[c, which, None] - term > ROUNDING
            without = np.minimum(without, found.log_betas(fails, log_beta))
        moved = np.flatnonzero(without != log_beta)
        if not len(moved):
            return {"change": -np.inf}
        own_block = {name: column[moved] for name, column in block.items()}
        return {"change": log_sum(change.of(own_block, without[moved]))}

    size = max(64, min(kernel.size, (1 << 22) // sum(len(part.t) for part in parts)))
    total = problem.rows.reduce(without_each, {"change": "logsum"}, size)["change"]
    return float(np.exp(min(total - log_total, LARGEST_LOG)))


class _Change:
    """How the weight of a row changes from one beta to others, in the unit of weights at it."""

    def __init__(self, found: Search, log_beta: float) -> None:
        self.problem, self.log_beta = found.problem, log_beta
        self.kernel, self.points = self.problem.kernel, 0
        if not self.kernel.known:
            grid = np.concatenate([part.t for part in found.parts] + [COARSE])
            self.t = np.unique(np.append(grid, np.clip(log_beta, -LAST, LAST)))
            self.unit = self.kernel.log_unit(self.problem, self.t)
            draws = self.problem.draws if self.problem.drawn is not None else None
            self.points = len(self.problem.rows if draws is None else draws)
            self.ends = self._ends()

    def _ends(self) -> tuple[float, float]:
        """The log betas between which clip changes: past them ψ/β, or ψ, is the same."""
        if not isinstance(self.kernel, ClipKernel):
            return -LAST, LAST
        same = (
            np.abs(self.unit - self.unit[0]) < SAME,
            np.abs(self.unit + self.t - LAST - self.unit[-1]) < SAME,
        )
        low = self.t[np.flatnonzero(np.logical_and.accumulate(same[0]))[-1]]
        high = self.t[::-1][np.flatnonzero(np.logical_and.accumulate(same[1][::-1]))[-1]]
        own = np.clip(self.log_beta, low, high) if np.isinf(self.log_beta) else self.log_beta
        return float(min(low, own)), float(max(high, own))

    def weigh(self, block: Block, log_betas: Floats) -> Floats:
        """Log-weights (betas × rows)."""
        at = np.clip(log_betas, -LAST, LAST) if self.kernel.nested else log_betas
        log_w, _, _, place = self.kernel.weigh(block, at, self.problem)
        return np.asarray(log_w[place])

    def of(self, block: Block, log_betas: Floats) -> Floats:
        """The log of how much the weight of each row changes on the way to a beta of its own."""
        here = self.weigh(block, np.array([self.log_beta]))[0]
        targets, place = np.unique(log_betas, return_inverse=True)
        there = self.weigh(block, targets)[place, np.arange(len(place))]
        if self.kernel.known:
            return _difference(here, there)
        at, own = (np.clip(each, -LAST, LAST) for each in (log_betas, self.log_beta))
        unit = self.unit[np.searchsorted(self.t, at)]
        there = there - unit + self.unit[np.searchsorted(self.t, own)]
        measured = _difference(here, there)
        if self.kernel.smoothness is None:
            return measured
        step = self.kernel.smoothness * np.abs(np.clip(at, *self.ends) - np.clip(own, *self.ends))
        slack, most = (
            here + log_of(np.expm1(np.minimum(each, LARGEST_LOG)))
            for each in (step / np.sqrt(self.points), step)
        )
        # rows may have ratios past those of all draws, where ψ no longer changes but weights do
        return np.asarray(np.maximum(measured, np.minimum(np.logaddexp(measured, slack), most)))


def _difference(here: Floats, there: Floats) -> Floats:
    """The log of |e^there − e^here|."""
    larger, smaller = np.maximum(here, there), np.minimum(here, there)
    possible = larger > -np.inf
    gap = np.where(possible, smaller, 0.0) - np.where(possible, larger, 0.0)
    return np.asarray(larger + log_of(-np.expm1(gap)))
