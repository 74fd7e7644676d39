"""Everything that is known at one beta, from one pass over the rows, as plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import Block
from tether.control.bins import scores
from tether.control.engine import LARGEST_LOG, LAST, Problem, dot, log_of, log_sum
from tether.control.kernels import BudgetedKernel, ClipKernel, PathKernel

COVERAGE_FALSE_ALARM = 1e-6  # the probability with which true scores fail the check of coverage
COVERAGE_MARGIN = 0.01  # by so much may rounded propensities move the limit of coverage below 1
SAME_SCORE = 1e-9  # log-weights and log ratios that differ by less are the same


@dataclass(frozen=True)
class Measured:
    """What one pass over the rows finds at one beta.

    Parameters
    ----------
    rows : int
        The number of rows.
    risks : dict of str to float
        The calibrated risk of every loss.
    effective_sample_size : float
        How many equally weighted rows the weighted log is worth.
    max_weight : float
        The largest share of the total weight that one point has, the test point included.
    log_test, log_total : float
        Logs of the test weight and of all weights, in one unit.
    test_weight : str or float
        Where the test weight comes from: "empirical", "analytic", "max_ratio" or a number.
    mean_ratio : float
        The mean of optimized over logged probability: near 1 where the log covers the optimized
        policy.
    acceptance : float
        The share of proposals that a rejection sampler accepts; NaN where it is unknown.
    changed : float
        The share of decisions that change: the mean of (safe − tethered weight)₊.
    coverage, coverage_limit : float
        The mean of the weights, which is 1 where the log contains what the tethered policy does,
        and what the true mean is at most, up to chance; NaN where weights are not known.
    safe_means : dict of str to tuple of float
        The safe policy's mean loss, and its standard error.
    harms : dict of str to float
        Along a path, the largest (l − α)·w of a row, for every loss; 0 elsewhere.
    rows_beyond_draws, heavier_rows : int
        How many rows have a larger ratio than every draw, and a larger weight than the test point.
    """

    rows: int
    risks: dict[str, float]
    effective_sample_size: float
    max_weight: float
    log_test: float
    log_total: float
    test_weight: str | float
    mean_ratio: float
    acceptance: float
    changed: float
    coverage: float
    coverage_limit: float
    safe_means: dict[str, tuple[float, float]]
    harms: dict[str, float]
    rows_beyond_draws: int
    heavier_rows: int

    @property
    def covered(self) -> bool:
        """Whether the log contains what the tethered policy does, as far as can be told."""
        return not self.coverage_limit < 1 - COVERAGE_MARGIN


def measure(problem: Problem, log_beta: float) -> Measured:
    """One pass over the rows at one beta."""
    kernel, constraints = problem.kernel, problem.constraints
    t = np.clip([log_beta], -LAST, LAST) if kernel.nested else np.array([log_beta])
    unit = float(kernel.log_unit(problem, t)[0])
    test: float | None = None if problem.carried else float(kernel.log_test(problem, t)[0])
    highest = np.inf
    if problem.front is not None and problem.drawn is not None:
        highest = float(scores(problem.front.columns)[0].max()) + SAME_SCORE

    def one_pass(block: Block) -> dict[str, Any]:
        (ratio, base), (matrix, top, draws, _) = scores(block), kernel.weigh(block, t, problem)
        log_w, most = matrix[0], float(matrix[0].max())
        shift, shift_base = most if most > -np.inf else 0.0, float(base.max())
        w = np.exp(log_w - shift)
        plain = np.exp(base - shift_base) if problem.has_mixture else np.ones(len(base))
        changed = np.maximum(plain * np.exp(shift_base) - w * np.exp(shift - unit), 0.0)
        found = {"rows": len(base), "top": top[0], "most": most, "base": shift_base}
        found |= {"changed": changed.sum(), "beyond": int((ratio > highest).sum())}
        if test is not None:
            found["heavier"] = int((log_w > test + SAME_SCORE).sum())
        total = float(w.sum())
        for each in constraints:
            loss = each.loss(block)
            weights = w if each.ratio_error == 1 else w * each.factors(block)
            weight = total if each.ratio_error == 1 else float(weights.sum())
            sums = np.array([weight, dot(weights, loss) / each.bound])
            loss = loss / each.bound if each.bound != 1 else loss
            lost = plain * loss if problem.has_mixture else loss
            of_safe = [plain.sum(), lost.sum()]
            squares = [dot(plain, plain), dot(plain, lost), dot(lost, lost)]
            logs = log_of(of_safe) + shift_base, log_of(squares) + 2 * shift_base
            found["of " + each.name] = np.concatenate((log_of(sums) + shift, *logs))
            if isinstance(kernel, PathKernel):
                harm = np.maximum(each.excess(block), 0.0) * w
                found["harm " + each.name] = log_of(harm.max()) + shift
        found |= {"w": log_of(total) + shift, "ww": log_of(dot(w, w)) + 2 * shift}
        found["ratio"] = log_sum(base + ratio if problem.has_mixture else ratio)
        if kernel.counts_draws:
            found["draws"] = log_sum(np.broadcast_to(draws, matrix.shape)[0])
        return found

    how = dict.fromkeys(["w", "ww", "ratio", "draws"], "logsum")
    how |= {"rows": "sum", "top": "max", "most": "max", "base": "max", "changed": "sum"}
    how |= {"beyond": "sum", "heavier": "sum"}
    how |= {f"of {each.name}": "logsum" for each in constraints}
    how |= {f"harm {each.name}": "max" for each in constraints}
    found = problem.rows.reduce(one_pass, how, kernel.size)
    if test is None:
        test = float(found["top"])
    total, rows = float(np.logaddexp(found["w"], test)), int(found["rows"])
    risks, safe = {}, {}
    for each in constraints:
        sums = found["of " + each.name]
        extra = np.log(each.ratio_error) + test
        quotient = np.logaddexp(sums[1], extra) - np.logaddexp(sums[0], extra)
        risks[each.name] = float(each.bound * np.exp(quotient))
        safe[each.name] = _safe_mean(sums[2:], found["base"], each.bound)
    size = np.exp(2 * found["w"] - found["ww"]) if found["w"] > -np.inf else 0.0
    harms = {each.name: found.get("harm " + each.name, -np.inf) for each in constraints}
    coverage, limit = _coverage(problem, found, unit, test, float(t[0]))
    return Measured(
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
        safe_means=safe,
        harms={name: float(np.exp(min(harm, LARGEST_LOG))) for name, harm in harms.items()},
        rows_beyond_draws=int(found["beyond"]),
        heavier_rows=int(found.get("heavier", 0)),
    )


def _safe_mean(sums: Floats, top: float, bound: float) -> tuple[float, float]:
    """The mean loss of the safe policy, and its error with one heaviest point more at the bound."""
    one, first, two, mixed, second = np.exp(sums - top * np.array([1, 1, 2, 2, 2]))
    mean = first / one
    spread = max(second - 2 * mean * mixed + mean**2 * two, 0.0) + (1 - mean) ** 2
    return float(bound * mean), float(bound * np.sqrt(spread) / (one + 1))


def _acceptance(problem: Problem, found: dict[str, Any], unit: float, log_beta: float) -> float:
    """The share of proposals that a sampler accepts."""
    if isinstance(problem.kernel, ClipKernel):
        return float(np.exp(min(unit + max(log_beta, 0.0), 0.0)))
    if not problem.kernel.counts_draws:
        return 1.0 if problem.family.single_draw or not problem.kernel.nested else math.nan
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
    if not problem.kernel.known:  # ψ is known where clip is the optimized policy itself
        unit = -LAST if isinstance(problem.kernel, ClipKernel) and log_beta >= LAST else np.nan
    rows, logs = int(found["rows"]), [found["w"] - unit, found["ww"] - 2 * unit]
    largest = max(float(found["most"]), test) - unit
    budgeted = isinstance(problem.kernel, BudgetedKernel) and problem.shares_draws
    if rows < 2 or budgeted or not -np.inf < logs[0] <= max(*logs, largest) <= LARGEST_LOG:
        return math.nan, math.nan
    mean, squares = math.exp(logs[0]) / rows, math.exp(logs[1]) / rows
    variance, odds = max(squares - mean**2, 0.0) * rows / (rows - 1), math.log(2e6)
    limit = mean + math.sqrt(2 * variance * odds / rows)
    limit += 7 * math.exp(largest) * odds / (3 * (rows - 1))
    if problem.drawn is not None:
        limit -= math.log(COVERAGE_FALSE_ALARM) / min(count for count in problem.drawn if count)
    return mean, limit
