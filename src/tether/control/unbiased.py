"""Weights that are unbiased given the past, and how large they can be in the context of a row.

The two proofs that go past the paper, the soft chain (`chain`) and the certificate (`confidence`),
bet on each row. They need weights with an expectation of 1 in their context given everything
before, so the tethered density is divided by that of the policy that acted in the row; and a limit
that no weight in the context can exceed, whatever the action:

- Tables of all actions: the largest weight among them.
- Budgeted clip by draws of the row's own: N·max(β, 1) + 1, whatever the draws.
- Mix: (1 + β·r)/(1 + β), with r the largest ratio there can be; infinite where it is not known.
- Clip without contexts: its normalizing constant ψ is known from proposals only. A band
  ψ⁻ ≤ ψ ≤ ψ⁺ holds at all betas but for a small probability; divided by ψ⁺, weights have
  expectations between ψ⁻/ψ⁺ and 1, and the limit is β/ψ⁺.

Limits are of tethered over safe density; where other policies acted, they are multiplied by the
largest ratio of safe density to theirs. Betas come from a fixed increasing sequence of grid points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import BLOCK, Block, Rows
from tether.control.chain import factors
from tether.control.engine import COARSE, LARGEST_LOG, LAST, Constraint, Problem, log_of, scores
from tether.control.kernels import (
    ClipKernel,
    MixKernel,
    OwnKernel,
    PathKernel,
    Weighed,
    along,
    ends,
)

FURTHEST = 8.0  # past this log β growing limits are infinite, and the only candidate of mix is ∞
LOOSEST = np.log(3.0)  # the widest band on log ψ at the first candidate, if any is that narrow
LARGEST_WEIGHT = 1e26  # larger weights count as this, and larger limits as infinite: less capital
LIMIT_TOLERANCE = 1e-6  # how far, relatively, rounding may take a weight above its stated limit
BAND_ERROR = 1e-3  # the share of a promise that an unknown normalizing constant may cost
MANY_ROWS = 20_000  # from this many rows on, rows of only a ratio and losses become weighted points
LOSS_NODES = 17  # losses of weighted points, from 0 to the bound
ENTRIES = 1 << 17  # the most weights in a block


def fixed_sequence() -> Floats:
    """The increasing log betas that are tried, the same for all logs: grid points up to ±1,000.

    Sixteenths up to 2, eighths up to 4, and coarse points of the grid beyond.
    """
    sixteenths, eighths = np.arange(-32, 33) / 16, np.arange(-32, 33) / 8
    return np.union1d(COARSE, np.union1d(sixteenths, eighths))


@dataclass(frozen=True)
class Weights:
    """The weights of a problem's rows against the policies that acted, with their limits.

    `t` are the candidates: the log betas of the fixed sequence at which weights or limits differ.
    `log_high` and `log_low` are logs of ψ⁺/β and ψ⁻/β at them, for clip without contexts; else 0;
    `error` is the probability that the band is wrong.
    `cells` are the rows of each loss as weighted points, where there are many.
    """

    problem: Problem
    t: Floats
    log_high: Floats
    log_low: Floats
    cells: Mapping[str, Rows] = field(default_factory=dict)
    error: float = 0.0

    @property
    def log_betas(self) -> Floats:
        """That of the safe policy, and those of the candidates."""
        found = np.append(-np.inf, self.t)
        if self.problem.kernel.nested:
            found[-1] = np.inf
        return found

    def log_capitals(self, constraint: Constraint, level: float, stakes: Floats) -> Floats:
        """Logs of what bettors against a level of one loss have after all rows (betas × bettors).

        `stakes` has a row for each beta, or one for all, and a column for each bettor. Where
        weights are known up to a factor g, `ratio_error`, excesses over the level are multiplied by
        g if they are positive and divided by it if not, which can only raise E[(l − a)·w]; and
        weights are divided by g, so that their expectation is at most 1. Then E[Z] ≥ (R − a)/g.

        With a column `by_safe`, half of each capital is bet on these rows alone, with a stake that
        is larger as they are fewer: what a later policy hardly ever does says nothing of betas near
        the safe policy.
        """
        rows, halves = self.cells.get(constraint.name, self.problem.rows), []
        if "by_safe" not in rows.names:
            size = max(64, ENTRIES // len(self.t) // 64 * 64)
            kernel = partial(self._log_capitals, constraint, level, stakes)
            return np.asarray(rows.reduce(kernel, {"logs": "sum"}, size)["logs"])
        columns = dict(rows.columns)
        by_safe = columns.pop("by_safe")
        for which in [np.ones_like(by_safe), by_safe][: 1 + by_safe.any()]:
            own = Rows({name: column[which] for name, column in columns.items()})
            half = replace(self, problem=replace(self.problem, rows=own))
            larger = stakes * (len(rows) + 1) / (len(own) + 1)
            halves.append(half.log_capitals(constraint, level, larger))
        return np.asarray(np.logaddexp.reduce(halves, axis=0) - np.log(len(halves)))

    def _log_capitals(
        self, constraint: Constraint, level: float, stakes: Floats, block: Block
    ) -> dict[str, Any]:
        """Sums over a block; a column `count` says how many rows a row stands for."""
        (weight, limit), loss = self.weigh(block), block[f"loss/{constraint.name}"]
        error, bound = constraint.ratio_error, constraint.bound
        if error != 1:
            away = loss - level
            loss = level + np.where(away > 0, away * error, away / error)
            weight, limit, bound = weight / error, limit / error, level + error * (bound - level)
        count, found = block.get("count", np.ones(1)), []
        for stake in np.atleast_2d(stakes).T:
            each = factors(loss, weight, limit, level, stake[:, None], bound)
            with np.errstate(divide="ignore", invalid="ignore"):
                found.append(np.where(count > 0, np.log(each) * count, 0.0).sum(axis=1))
        return {"logs": np.stack(found, axis=1)}

    def weigh(self, block: Block) -> tuple[Floats, Floats]:
        """Weights (betas × rows) and their limits (betas × rows, or × 1)."""
        own, problem, unit = _against_acting(block), self.problem, self.log_high[:, None]
        made = problem.kernel.weigh(own, self.t, problem)
        weight = np.exp(np.minimum(made.log_w - unit, LARGEST_LOG)).clip(max=LARGEST_WEIGHT)
        limit = np.exp(self._log_limit(own, made) - unit) * np.exp(_log_base_limit(block))
        if not isinstance(problem.test_weight, str) and "log_logged" not in block:
            limit = np.minimum(limit, problem.test_weight)  # the user's own bound on all weights
        if (weight > limit * (1 + LIMIT_TOLERANCE)).any():
            raise ValueError(
                "a row weighs more than the stated limits allow: max_ratio, log_base_limit or "
                "test_weight is too small"
            )
        return weight, np.where(limit > LARGEST_WEIGHT, np.inf, limit)

    def _log_limit(self, own: Block, made: Weighed) -> Floats:
        """The log of the largest weight against the safe policy (betas × rows, or × 1)."""
        kernel, at = self.problem.kernel, self.t[:, None]
        if isinstance(kernel, MixKernel):
            most: Floats | float = np.log(self.problem.max_ratio)
            if "log_safe_all" in own:
                most = scores(own, "_all")[0].max(axis=1)
            return np.asarray(along(0.0, most, at))
        if "log_safe_all" in own:
            return np.asarray(made.candidates[made.place])
        if not (isinstance(kernel, ClipKernel) or kernel.from_draws):
            return np.full(at.shape, np.inf)
        return np.where(at > FURTHEST, np.inf, kernel.log_limit(self.problem, at))


def _against_acting(block: Block) -> Block:
    """A block in which the policy that acted stands for the mixture."""
    dropped = ("log_mix", "base_")
    own = {name: column for name, column in block.items() if not name.startswith(dropped)}
    if "log_logged" in block:
        own["log_mix"] = block["log_logged"]
    return own


def _log_base_limit(block: Block) -> Floats | float:
    """The log of the largest ratio of safe density to that of the policy that acted, per row."""
    if "log_logged" not in block:
        return 0.0
    if "log_logged_all" in block:
        with np.errstate(invalid="ignore"):
            base = block["log_safe_all"] - block["log_logged_all"]
        return np.asarray(np.where(np.isnan(base), -np.inf, base).max(axis=1))
    return block.get("log_base_limit", np.inf)


# ---- the weights of a problem ------------------------------------------------------------------


def unbiased_weights(problem: Problem, asked: str) -> Weights:
    """The weights of a problem at the candidates of a fixed sequence; errors say what was `asked`.

    For a promise an unknown normalizing constant gets a band from proposals. They are drawn apart
    from the log, so the sequence may begin at the first beta with a narrow band.
    """
    kernel, unknown = problem.kernel, isinstance(problem.kernel, ClipKernel)
    if unknown and asked == "promise" and problem.draws is None:
        raise ValueError(
            "promise needs proposals, fresh draws of the policies, for a log without contexts "
            "(tether.make_proposals makes them)"
        )
    if not (kernel.known or unknown):
        raise ValueError(
            f"{asked} needs a family whose normalizing constant is known: give tables of all "
            f"actions (log_safe_all, log_optimized_all), or use 'clip', 'mix' or 'budgeted_clip'"
        )
    if problem.has_mixture and "log_logged" not in problem.rows.names:
        raise ValueError(
            f"{asked} needs the log-density of each action under the policy that acted in its row, "
            f"log_logged in the log; if every action was drawn from the mixture itself, that is "
            f"log_mix"
        )
    t, cells, error = candidates(problem), {}, 0.0
    plain = unknown or (isinstance(kernel, MixKernel) and "log_safe_all" not in problem.rows.names)
    if plain and "log_logged" not in problem.rows.names and len(problem.rows) >= MANY_ROWS:
        cells = {each.name: _cells(problem, each) for each in problem.constraints}
    log_high, log_low = np.zeros((2, len(t)))
    if unknown:
        log_high, log_low = np.minimum(0.0, -t), np.full(len(t), -np.inf)  # ψ is at most β and 1
    if unknown and asked == "promise":
        assert problem.draws is not None
        error = BAND_ERROR * min(each.alpha / each.bound for each in problem.constraints)
        each_error = error / (4 * len(fixed_sequence()))  # two bounds from each policy's draws
        log_low, upper = _normalizer_band(problem.draws, t, problem.blend, each_error)
        log_high = np.minimum(upper, log_high)
    first = int((log_high - log_low <= LOOSEST).argmax())
    return Weights(problem, t[first:], log_high[first:], log_low[first:], cells, error)


def candidates(problem: Problem) -> Floats:
    """The fixed sequence, but for betas with the same weights and limits as the first or last.

    Another one for mix and a user's own family, whose first beta mixes in 0.03 % of the optimized,
    and for a path, which has its own.
    """
    if isinstance(problem.kernel, PathKernel):
        return np.asarray(problem.kernel.coarse)
    low, high, every = -FURTHEST, FURTHEST, fixed_sequence()
    if not isinstance(problem.kernel, (MixKernel, OwnKernel)):
        low, reach = _reach(problem)
        high = max(high, reach)
    first = max(int(np.searchsorted(every, low, side="right")) - 1, 0)
    last = min(int(np.searchsorted(every, high)), len(every) - 1)
    return np.append(every[first:last], LAST)


def _cells(problem: Problem, constraint: Constraint) -> Rows:
    """Rows as weighted points on a grid of ratios and losses: one pass.

    A factor is linear in the ratio between two nodes, and in the loss. So a row that is split among
    the corners of its cell keeps its mean factor, and by Jensen's inequality the capital can only
    become smaller, by a second-order amount.
    """
    low, high = _reach(problem)
    nodes = np.unique(np.clip([low, *fixed_sequence(), high], low, high))
    nodes = np.append(-np.inf, nodes)  # −inf: the optimized policy never does this
    bound, count = constraint.bound, len(nodes)

    def kernel(block: Block) -> dict[str, Any]:
        ratio, level = scores(block)[0], constraint.loss(block) / bound * (LOSS_NODES - 1)
        place = np.clip(np.searchsorted(nodes, ratio, side="right") - 1, 0, count - 2)
        with np.errstate(invalid="ignore", over="ignore"):
            right = np.expm1(ratio - nodes[place]) / np.expm1(nodes[place + 1] - nodes[place])
        right = np.where(place > 0, np.clip(right, 0.0, 1.0), 0.0)
        below = np.minimum(level.astype(np.int64), LOSS_NODES - 2)
        upper, size = level - below, count * LOSS_NODES
        corners = (
            np.bincount((place + i) * LOSS_NODES + below + j, part * share, size)
            for i, part in enumerate((1 - right, right))
            for j, share in enumerate((1 - upper, upper))
        )
        return {"count": sum(corners)}

    found = problem.rows.reduce(kernel, {"count": "sum"}, BLOCK)["count"]
    filled = np.flatnonzero(found > 0)
    columns = {"log_safe": np.zeros(len(filled)), "log_optimized": nodes[filled // LOSS_NODES]}
    columns[f"loss/{constraint.name}"] = np.linspace(0.0, bound, LOSS_NODES)[filled % LOSS_NODES]
    return Rows({**columns, "count": found[filled]})


def _reach(problem: Problem) -> tuple[float, float]:
    """The smallest finite log ratio, at most 0, and the largest, in rows, tables and draws."""

    def kernel(block: Block) -> dict[str, Any]:
        found = [scores(block, end)[0] for end in ("", "_all") if "log_safe" + end in block]
        found += [block[name] for name in ("draws_safe", "draws_optimized") if name in block]
        return dict(
            zip(("low", "high"), ends(np.concatenate([np.ravel(e) for e in found])), strict=True)
        )

    every = [rows for rows in (problem.rows, problem.draws) if rows is not None]
    found = [rows.reduce(kernel, {"low": "max", "high": "max"}, BLOCK) for rows in every]
    return min(0.0, *(-each["low"] for each in found)), max(each["high"] for each in found)


def _normalizer_band(draws: Rows, t: Floats, blend: float, error: float) -> tuple[Floats, Floats]:
    """Logs of bounds on ψ/β from fresh draws; each of the four is wrong with probability `error`.

    ψ/β is the safe policy's mean of min(1, ρ/β), and ψ the optimized one's of min(1, β/ρ).
    """

    def binned(ratio: Floats, at: Floats) -> Floats:
        """How many ratios are in each bin, with the sums of ρ/β and (ρ/β)² at the next beta."""
        ratio = np.sort(ratio)  # numbers in order are found several times as fast
        place = np.searchsorted(at, ratio, side="right")
        near = np.exp(np.minimum(ratio - np.append(at, np.inf)[place], 0.0))
        powers = np.ones(len(ratio)), near, near**2
        return np.array([np.bincount(place, each, len(at) + 1) for each in powers])

    def kernel(block: Block) -> dict[str, Any]:
        ratio, safe = scores(block)[0], block["from_safe"].astype(bool)
        inverse = np.where(ratio > -np.inf, -ratio, -np.inf)[~safe]  # none of clip where safe is 0
        return {"safe": binned(ratio[safe], t), "optimized": binned(inverse, -t[::-1])}

    def band(found: Floats, at: Floats) -> tuple[Floats, Floats]:
        """Bounds on the mean of min(1, ρ/β) at increasing log betas."""
        whole, *near = found
        above, gap = np.cumsum(whole[::-1])[-2::-1], np.abs(at[:, None] - at)
        below = [np.tril(np.exp(-power * gap)) @ each[:-1] for power, each in enumerate(near, 1)]
        return mean_band(above + np.array(below), float(whole.sum()), error)

    found = draws.reduce(kernel, {"safe": "sum", "optimized": "sum"}, BLOCK)
    safe_low, safe_high = band(found["safe"], t)
    low, high = (each[::-1] for each in band(found["optimized"], -t[::-1]))
    low, high = (1 - blend) * low, (1 - blend) * high + blend  # a share of it is the safe policy
    return (
        np.maximum(log_of(safe_low), log_of(low) - t),
        np.minimum(log_of(safe_high), log_of(high) - t),
    )


def mean_band(sums: Floats, count: float, error: float) -> tuple[Floats, Floats]:
    """Bounds on means of independent numbers in [0, 1], from their sums and sums of squares.

    The empirical Bernstein bound of Maurer and Pontil; either side fails with probability `error`.
    """
    total, squares = sums
    if count < 2:
        return np.zeros(len(total)), np.ones(len(total))
    mean, log_error = total / count, np.log(2 / error)
    variance = np.maximum(squares - total * mean, 0.0) / (count - 1)
    wide = np.sqrt(2 * variance * log_error / count) + 7 * log_error / (3 * (count - 1))
    return np.maximum(mean - wide, 0.0), np.minimum(mean + wide, 1.0)
