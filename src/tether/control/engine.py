"""The largest safe beta, found on one fixed grid in two passes over rows.

Row i has the weight w_i(β) = tethered density / density of the mixture that produced the log. With
w the test weight, the largest that the next action may have, the calibrated risk is

    R(β) = (Σ l_i·w_i + B·w) / (Σ w_i + w).

Both sums are positive, and kept as logs at every beta: R is the curve of all alphas at once. Log β
lies on one grid that is the same for every log: coarse points, and 31 fine ones between two
neighbours. One pass finds the last coarse point before the first with R > α, a second one the last
fine point before the first with R > α in that gap; a third measures what is known at it.

Why this is the theorem. With the test point at the worst loss B and the largest weight, R > α on
n + 1 points implies R > α on n of them, at every beta. So a coarse point that passes on n rows
passes on n + 1, the gap of n + 1 is not earlier, and in the same gap the fine point is not earlier
either: the beta of n rows is at most that of n + 1 points, at which the condition was evaluated.
The proof uses nothing else of "every smaller beta", so that a dip between two coarse points that is
stepped over costs nothing. The ends of the grid, ±1,000, stand for −inf and +inf.

Matrices are (betas × rows) and hold log-weights up to one factor per beta, which the condition does
not see: ψ/β for clip without contexts, whose normalizing constant ψ cancels, and 1 elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core import validate
from tether._core.arrays import TIE_TOLERANCE, Booleans, Floats, Integers
from tether._core.rows import Block, Pass, Rows

if TYPE_CHECKING:
    from tether.control.families import Family
    from tether.control.kernels import Kernel

LAST = 1000.0  # log betas and log ratios are at most this; the grid's ends mean −inf and +inf
PARTS = 32  # fine steps in a gap between coarse points
NEAR, FEW = 16, 1000  # with more than FEW rows, how many gaps beside beta are searched finely
ROUNDING = 1e-12  # how much, relatively, sums may change when a row is added and taken off again
LARGEST_LOG = 700.0  # logs up to this have an exponential that is a float
LARGEST_BASE = 300.0  # logged actions are that much likelier under safe with probability e^−300
COVERAGE_FALSE_ALARM = 1e-6  # the probability with which true scores fail the check of coverage
COVERAGE_MARGIN = 0.01  # how far rounded propensities may move the limit of coverage below 1
SAME_SCORE = 1e-9  # log-weights and log ratios that differ by less are the same


def _coarse_points() -> Floats:
    """A quarter apart up to 20, then growing like a fortieth of |log β|, up to ±1,000."""
    right = [0.0]
    while right[-1] < LAST:
        right.append(min(right[-1] + max(1.0, right[-1] // 10) / 4, LAST))
    return np.array([-t for t in right[:0:-1]] + right)


COARSE = _coarse_points()


def fine_points(gaps: Integers) -> Floats:
    """The first point of each gap between coarse points, and the 31 fine ones after it (2-d)."""
    steps = np.diff(COARSE)[gaps, None] * np.arange(PARTS) / PARTS
    return np.asarray(COARSE[gaps, None] + steps)


def log_of(values: Any) -> Any:
    """The log of numbers of at least 0; −inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(values)


def log_add(first: Any, second: Any) -> Any:
    """As `np.logaddexp`, in a fifth of the time."""
    with np.errstate(invalid="ignore"):
        gap = np.fmin(-np.abs(first - second), 0.0)  # 0 where both are the same infinity
    return np.maximum(first, second) + np.log1p(np.exp(gap))


def log_sum(logs: Floats) -> float:
    """The log of a sum of exponentials."""
    top = float(logs.max(initial=-np.inf))
    return top + float(np.log(np.exp(logs - top).sum())) if top > -np.inf else -np.inf


def scores(block: Block, suffix: str = "") -> tuple[Floats, Floats]:
    """Log ratio (optimized over safe) and log base (safe over mixture); −inf where safe is."""
    safe, mix = block["log_safe" + suffix], block.get("log_mix" + suffix)
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = block["log_optimized" + suffix] - safe
        base = np.zeros(safe.shape) if mix is None else safe - mix
    if ratio.max() <= LAST and (mix is None or base.max() <= LAST):  # so that safe is above −inf
        return ratio, base
    ratio, base = (np.where(safe > -np.inf, each, -np.inf) for each in (ratio, base))
    if not (most := max(ratio.max(), base.max())) <= LAST:
        raise ValueError(
            f"log ratios of optimized over safe and of safe over mixture probability must be at "
            f"most {LAST:g}, got {most:g} (log_safe, log_optimized, log_mix)"
        )
    return ratio, base


def dot(first: Floats, second: Floats) -> float:
    """Σ first·second, without the threads of a linear algebra library: blocks have their own."""
    return float(np.einsum("i,i->", first, second))


@dataclass(frozen=True)
class Constraint:
    """One loss, how much of it is tolerated in expectation, and the most it can be.

    Every weight may be wrong by a factor of up to g, `ratio_error`, in either direction. The
    condition then holds for the true weights if it holds with the weights of rows with l > α and of
    the test point multiplied by g, and those of other rows divided by it.
    """

    name: str
    alpha: float
    bound: float = 1.0
    ratio_error: float = 1.0

    def loss(self, block: Block) -> Floats:
        """The losses of a block; an error if one exceeds the bound."""
        found: Floats = block[f"loss/{self.name}"]
        if found.max() > self.bound:
            key = "loss" if self.name == "loss" else f"loss[{self.name!r}]"
            advice = "; only if losses can be larger, pass a larger bound="
            validate.reject_above_bound(key, found, self.bound, advice)
        return found

    def amounts(self, block: Block) -> tuple[Floats, Floats]:
        """What a unit of weight adds, in every row, to the sum of weights and to that of losses."""
        loss, error = self.loss(block), self.ratio_error
        if error == 1:
            return np.ones(len(loss)), loss
        factors = np.where(loss > self.alpha, error, 1 / error)
        return factors, factors * loss

    def excess(self, block: Block) -> Floats:
        """What a unit of weight adds to the sum of losses less alpha times that of weights."""
        weight, loss = self.amounts(block)
        return np.asarray(loss - self.alpha * (1 + TIE_TOLERANCE) * weight)


@dataclass(frozen=True)
class Problem:
    """Rows, the family that is served and its kernel, constraints, and the test weight.

    `test_weight` is "empirical", "analytic", "max_ratio", a number that bounds all weights, or
    "none" for rules that need none.
    `draws` are fresh draws of the policies with their scores, where rows do not carry them, and
    `front` the few of them that can be the heaviest (`tether.control.kernels.front`). `drawn` says
    how many each policy made, and `foreseeing` how many of each foresee the next action, where the
    test weight is the largest among draws; None where no action can exceed it. `shares_draws` says
    whether rows share the draws that they carry (along a path, whether draws share the rows'
    contexts).
    """

    rows: Rows
    family: Family
    kernel: Kernel
    constraints: tuple[Constraint, ...]
    test_weight: str | float = "empirical"
    draws: Rows | None = None
    front: Rows | None = None
    drawn: Floats | None = None
    safe_share: float = 1.0
    max_ratio: float = np.inf
    foreseeing: tuple[float, float] | None = None
    shares_draws: bool = False
    blend: float = 0.0

    @property
    def has_mixture(self) -> bool:
        """Whether several policies produced the rows."""
        return "log_mix" in self.rows.names

    @property
    def carried(self) -> bool:
        """Whether the test weight comes from candidates that the rows carry."""
        stated = not isinstance(self.test_weight, str)
        by_formula = self.kernel.from_draws and self.test_weight == "analytic"
        return self.kernel.candidates and not stated and not by_formula

    def levels(self, t: Floats) -> Levels:
        """The condition at increasing log betas: one pass over the rows."""
        found = self.kernel.sums(self, t)
        top = found["top"] if self.carried else self.kernel.log_test(self, t)
        numbers = [(each.alpha, each.bound, each.ratio_error) for each in self.constraints]
        alpha, bound, error = np.array(numbers).T[:, :, None]
        weight, loss = np.moveaxis(found["sums"], 1, 0)
        log_loss = np.logaddexp(loss, np.log(bound * error) + top)
        log_limit = np.log(alpha * (1 + TIE_TOLERANCE))
        log_limit = log_limit + np.logaddexp(weight, np.log(error) + top)
        return Levels(t, log_loss, log_limit, found["most"])


@dataclass(frozen=True)
class Levels:
    """The condition at some log betas.

    Logs of Σ l·w and of α·Σ w, the test point in both (constraints × betas), and of the heaviest
    row's weight (betas). R > α where the first exceeds the second.
    """

    t: Floats
    log_loss: Floats
    log_limit: Floats
    most: Floats

    @cached_property
    def unit(self) -> Floats:
        """The larger of the two sums."""
        unit = np.maximum(self.log_loss, self.log_limit)
        return np.where(np.isfinite(unit), unit, 0.0)

    @cached_property
    def value(self) -> Floats:
        """Their difference in that unit: positive where R > α."""
        return np.asarray(np.exp(self.log_loss - self.unit) - np.exp(self.log_limit - self.unit))

    @property
    def fails(self) -> Booleans:
        """Where R > α (constraints × betas)."""
        return np.asarray(self.value > 0)

    def risks(self, constraint: Constraint, place: int) -> Floats:
        """The calibrated risk of one constraint along the betas."""
        ratio = np.exp(np.minimum(self.log_loss[place] - self.log_limit[place], LARGEST_LOG))
        return np.asarray(
            np.minimum(constraint.alpha * (1 + TIE_TOLERANCE) * ratio, constraint.bound)
        )

    def joined(self, other: Levels) -> Levels:
        """The condition at the betas of both."""
        every, more = vars(self), vars(other)
        order = np.argsort(np.concatenate((self.t, other.t)))
        names = (each.name for each in fields(self))
        return Levels(*(np.concatenate((every[n], more[n]), axis=-1)[..., order] for n in names))


@dataclass(frozen=True)
class Search:
    """The condition at all coarse points and at the fine points of the gaps that matter.

    `coarse` are the places of the coarse points among them.
    """

    problem: Problem
    levels: Levels
    coarse: Integers

    def possible(self) -> tuple[Booleans, Booleans]:
        """Where a constraint could fail without some row, and where it could pass.

        Past a coarse point that fails without any row nothing matters.
        """
        levels, constraints = self.levels, self.problem.constraints
        heavy = np.exp(np.minimum(levels.most - levels.unit, LARGEST_LOG))
        most = np.array([(c.alpha, c.bound - c.alpha) for c in constraints]).T[:, :, None]
        below, above = most * heavy * np.array([[c.ratio_error] for c in constraints])
        could_fail, could_pass = levels.value + below > -ROUNDING, levels.value - above <= ROUNDING
        ended = np.zeros_like(could_pass)
        ended[:, self.coarse] = ~could_pass[:, self.coarse]
        could_fail[:, 1:] &= ~np.logical_or.accumulate(ended, axis=1)[:, :-1]
        return could_fail, could_pass

    def log_betas(self, fails: Booleans, near: float = 0.0) -> Floats:
        """From verdicts (betas × cases) to the log beta of each case.

        −inf where nothing passes; in a gap without fine points, its end further from `near`.
        """
        t, nested = self.levels.t, self.problem.kernel.nested
        at_coarse = fails[self.coarse]
        passes, first = ~at_coarse.any(axis=0), at_coarse.argmax(axis=0)
        start, end = self.coarse[np.maximum(first - 1, 0)], self.coarse[first]
        past = np.arange(len(t))[:, None] > start
        found = t[np.maximum((fails & past).argmax(axis=0) - 1, 0)]
        if nested:
            found = np.where((end == start + 1) & (found >= near), t[end], found)
        nothing = (first == 0) | (found == -LAST)
        last = np.inf if nested else t[-1]
        return np.where(passes, last, np.where(nothing, -np.inf, found))

    def largest(self) -> dict[str, float]:
        """The log beta that every constraint allows by itself."""
        names = (each.name for each in self.problem.constraints)
        return dict(zip(names, self.log_betas(self.levels.fails.T).tolist(), strict=True))


def search(problem: Problem) -> Search:
    """Two passes: all coarse points, then the fine points of the gaps that matter."""
    coarse = problem.levels(np.asarray(problem.kernel.coarse))
    fails, last = coarse.fails, len(coarse.t) - 1
    found = Search(problem, coarse, np.arange(last + 1))
    if not problem.kernel.nested:
        return found
    own = np.clip(np.where(fails.any(axis=1), fails.argmax(axis=1), last + 1) - 1, 0, last - 1)
    near = NEAR if len(problem.rows) > FEW else last
    around = np.arange(max(own.min() - near, 0), min(own.min() + near + 1, last))
    could_fail, could_pass = found.possible()
    gaps = np.union1d(own, around[(could_fail[:, around + 1] & could_pass[:, around]).any(axis=0)])
    levels = coarse.joined(problem.levels(fine_points(gaps)[:, 1:].ravel()))
    return Search(problem, levels, np.searchsorted(levels.t, coarse.t))


# ---- what is known at one beta -------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What one pass over the rows finds at one beta."""

    rows: int  #: The number of rows.
    risks: dict[str, float]  #: The calibrated risk of every loss.
    #: How many equally weighted rows the weighted log is worth.
    effective_sample_size: float
    #: The largest share of the total weight that one point has, the test point included.
    max_weight: float
    log_test: float  #: The log of the test weight.
    log_total: float  #: The log of all weights together, in the same unit.
    #: Where the test weight comes from: "empirical", "analytic", "max_ratio" or a number.
    test_weight: str | float
    #: The mean of optimized over logged probability: near 1 where the log covers the former.
    mean_ratio: float
    #: The share of proposals that a rejection sampler accepts; NaN where it is unknown.
    acceptance: float
    #: The share of decisions that change: the mean of (safe − tethered weight)₊.
    changed: float
    #: The mean of the weights, which is 1 where the log contains what the tethered policy does;
    #: NaN where weights are not known.
    coverage: float
    coverage_limit: float  #: What the true mean is at most, up to chance.
    #: The safe policy's mean loss, and its standard error.
    safe_means: dict[str, tuple[float, float]]
    #: Along a path, the largest (l − α)·w of a row, for every loss; 0 elsewhere.
    harms: dict[str, float]

    @property
    def covered(self) -> bool:
        """Whether the log contains what the tethered policy does, as far as can be told."""
        return not self.coverage_limit < 1 - COVERAGE_MARGIN


def measure(
    problem: Problem, log_beta: float, **beside: Pass
) -> tuple[Measured, dict[str, dict[str, Any]]]:
    """One pass over the rows at one beta, and what other kernels find in the same pass."""
    kernel, constraints = problem.kernel, problem.constraints
    t = kernel.at([log_beta])
    unit = float(kernel.log_unit(problem, t)[0])

    def one_pass(block: Block) -> dict[str, Any]:
        (ratio, base), made = scores(block), kernel.weigh(block, t, problem)
        log_w, most = made.told[0], float(made.told[0].max())
        shift = most if most > -np.inf else 0.0
        w = np.exp(log_w - shift)
        safe = np.exp(np.minimum(base, LARGEST_BASE)) if problem.has_mixture else np.ones(1)
        sums, squares, harms = [], [], []
        for each in constraints:
            sums.append([dot(amount, w) for amount in each.amounts(block)])
            squares.append(_moments(safe, each.loss(block)))
            harms.append(0.0 if kernel.nested else (each.excess(block) * w).max(initial=0.0))
        found = {"rows": len(base), "most": most, "safe most": safe.max()}
        found |= {"w": log_of(w.sum()) + shift, "ww": log_of(dot(w, w)) + 2 * shift}
        found |= {"sums": log_of(sums) + shift, "safe": np.array(squares)}
        found |= {"harms": log_of(harms) + shift, "ratio": log_sum(base + ratio)}
        scaled = w * math.exp(min(shift - unit, LARGEST_LOG))
        found["changed"] = np.clip(safe - scaled, 0.0, np.inf).sum()
        if problem.carried:
            found["top"] = made.top[0]
        found["draws"] = log_sum(made.log_draws[0]) + np.log(len(base) / made.log_draws.shape[1])
        return found

    how = dict.fromkeys(("w", "ww", "sums", "ratio", "draws"), "logsum")
    how |= dict.fromkeys(("rows", "changed", "safe"), "sum")
    how |= dict.fromkeys(("top", "most", "safe most", "harms"), "max")
    others = problem.rows.together(measured=Pass(one_pass, how, kernel.size), **beside)
    found = others.pop("measured")
    test = float(found["top"] if problem.carried else kernel.log_test(problem, t)[0])
    total, rows = float(np.logaddexp(found["w"], test)), int(found["rows"])
    risks, safe_means, harms = {}, {}, {}
    for each, (weight, loss), safe, harm in zip(
        constraints, found["sums"], found["safe"], found["harms"], strict=True
    ):
        extra = np.log(each.ratio_error) + test
        risk = np.exp(np.logaddexp(loss, extra + np.log(each.bound)) - np.logaddexp(weight, extra))
        risks[each.name] = float(risk)
        safe_means[each.name] = _safe_mean(safe, found["safe most"], each.bound)
        harms[each.name] = float(np.exp(min(harm, LARGEST_LOG)))
    size = np.exp(2 * found["w"] - found["ww"]) if found["w"] > -np.inf else 0.0
    coverage, limit = _coverage(problem, found, unit, test, float(t[0]))
    measured = Measured(
        rows,
        risks,
        effective_sample_size=float(size),
        max_weight=float(np.exp(max(found["most"], test) - total)),
        log_test=test,
        log_total=total,
        test_weight=problem.test_weight,
        mean_ratio=float(np.exp(min(found["ratio"], LARGEST_LOG)) / rows),
        acceptance=_acceptance(problem, found, unit, float(t[0])),
        changed=float(min(found["changed"] / rows, 1.0)),
        coverage=coverage,
        coverage_limit=limit,
        safe_means=safe_means,
        harms=harms,
    )
    return measured, others


def _moments(safe: Floats, loss: Floats) -> list[float]:
    """Sums of the safe policy's weights and weighted losses, and of their squares and products."""
    if len(safe) < len(loss):  # every weight is 1
        total = float(loss.sum())
        return [len(loss), total, len(loss), total, dot(loss, loss)]
    lost = safe * loss
    return [safe.sum(), lost.sum(), dot(safe, safe), dot(safe, lost), dot(lost, lost)]


def _safe_mean(sums: Floats, most: float, bound: float) -> tuple[float, float]:
    """The mean loss of the safe policy, and its error with one heaviest point more at the bound."""
    one, first, two, mixed, second = sums / most ** np.array([1, 1, 2, 2, 2])
    mean = first / one
    spread = max(second - 2 * mean * mixed + mean**2 * two, 0.0) + (bound - mean) ** 2
    return float(mean), float(np.sqrt(spread) / (one + 1))


def _acceptance(problem: Problem, found: dict[str, Any], unit: float, log_beta: float) -> float:
    """The share of proposals that a sampler accepts."""
    if problem.kernel.clips:
        return float(np.exp(min(unit + max(log_beta, 0.0), 0.0)))
    accepted = float(np.exp(np.log(found["rows"]) - found["draws"]))
    return accepted if 0 < accepted <= 1 + SAME_SCORE else math.nan


def _coverage(
    problem: Problem, found: dict[str, Any], unit: float, test: float, log_beta: float
) -> tuple[float, float]:
    """The mean of the weights, and what the true mean is at most except with probability 1e-6.

    The weights have mean 1 if every density is right and the policies that produced the log can
    take every action of the tethered policy. If no weight exceeds W, the true mean is at most
    mean + sqrt(2·V·log(2/p)/n) + 7·W·log(2/p)/(3·(n − 1)) with V the sample variance (Maurer and
    Pontil, 2009). Where W is the largest weight of m draws, the share of actions beyond all of them
    is at most log(1/p)/m, likewise.
    """
    rows, logs = int(found["rows"]), [found["w"] - unit, found["ww"] - 2 * unit]
    largest = max(float(found["most"]), test) - unit
    noisy = problem.shares_draws and problem.kernel.from_draws
    known = not noisy and (problem.kernel.known or log_beta >= LAST)  # where clip is optimized
    if rows < 2 or not (known and -np.inf < logs[0] <= max(*logs, largest) <= LARGEST_LOG):
        return math.nan, math.nan
    mean, squares = math.exp(logs[0]) / rows, math.exp(logs[1]) / rows
    variance, odds = max(squares - mean**2, 0.0) * rows / (rows - 1), math.log(2e6)
    limit = mean + math.sqrt(2 * variance * odds / rows)
    limit += 7 * math.exp(largest) * odds / (3 * (rows - 1))
    if problem.drawn is not None:
        limit -= math.log(COVERAGE_FALSE_ALARM) / min(count for count in problem.drawn if count)
    return mean, limit
