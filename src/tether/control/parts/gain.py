"""What a calibration on a log in parts buys: `tether.gain`, from sums over rows."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.gains import DEFAULT_INTERVAL, SHARED_DRAWS_NOTE, Gain, PolicyMeans
from tether.control.missing_actions import why_not_seen
from tether.control.parts.gain_sums import PolicyWeights, SumChanges, SumGains, SumMoves
from tether.control.parts.weights import WeightsOfPart
from tether.control.weighted_means import (
    LEAST_EFFECTIVE_ROWS,
    MISSING_STANDARD_ERRORS,
    WeightedMean,
    student_quantile,
    why_not_shown,
    why_too_few,
)

if TYPE_CHECKING:
    from tether.control.calibration import Calibration
    from tether.control.parts.problem import ProblemInParts


def gain_in_parts(found: Calibration, problem: ProblemInParts, confidence: float) -> Gain:
    """Estimate rewards, losses and the share of decisions that change."""
    return _Estimates(found, problem, confidence).gain()


def changed_in_parts(
    problem: ProblemInParts, weights: WeightsOfPart, log_beta: float, sums: Floats
) -> float | None:
    """The share of decisions that change, from the sums of `SumRows` at a beta; None if unknown."""
    rows, policies = len(problem.log), PolicyWeights(weights, log_beta)
    totals = (float(sums[2]), float(sums[0]), 0.0)
    none: tuple[tuple[float, ...], ...] = ((), (), ())
    (second,) = problem.log.reduce(SumMoves(policies, (), totals, none, none))
    mean, square = linearized(problem, policies, totals[:2], second.logs)
    return changed_mean(rows, mean, square, DEFAULT_INTERVAL).mean


def linearized(
    problem: ProblemInParts, policies: PolicyWeights, log_totals: tuple[float, ...], less: Floats
) -> tuple[float, float]:
    """The mean and the mean square of the linearized share of decisions that change."""
    log_rows = np.log(len(problem.log))
    safe, tethered = (float(total - log_rows) for total in log_totals)
    parts: Floats = np.exp(less)
    kernel = SumChanges(policies, (safe, tethered), (float(parts[0]), float(parts[1])))
    (found,) = problem.log.reduce(kernel)
    positive, negative, square = np.exp(found.logs - log_rows).tolist()
    return positive - negative, square


def changed_mean(rows: int, mean: float, square: float, confidence: float) -> WeightedMean:
    """The share of decisions that change, with its interval."""
    if few := why_too_few(rows):
        return WeightedMean(None, None, None, float(rows), few)
    added = student_quantile(confidence, np.inf) ** 2
    center = (rows * mean + added / 2) / (rows + added)
    squares = max(square - 2 * center * mean + center**2, 0.0) / rows
    low, high = bounded_interval(rows, center, squares, 1.0, confidence)
    return WeightedMean(min(max(mean, low), high), low, high, float(rows))


def bounded_interval(
    effective: float, center: float, squares: float, bound: float, confidence: float
) -> tuple[float, float]:
    """Agresti and Coull's interval, as in `weighted_means`; `squares` is Σ s²·(v − center)²."""
    added = student_quantile(confidence, np.inf) ** 2
    total = effective + added
    seen = effective * effective * squares
    variance = (seen + added / 2 * (center**2 + (bound - center) ** 2)) / total
    half = float(np.sqrt(added * variance / total))
    return float(max(center - half, 0.0)), float(min(center + half, bound))


class _Estimates:
    """The sums of all passes, and what follows from them."""

    def __init__(self, found: Calibration, problem: ProblemInParts, confidence: float) -> None:
        self.found, self.problem, self.confidence = found, problem, confidence
        direct = problem.family.normalized or not problem.log.contextual
        weights = WeightsOfPart(problem.family, problem.test_weight, problem.blend, direct)
        self.rows = len(problem.log)
        self.policies = PolicyWeights(weights, found.log_beta)
        names = tuple(each.name for each in found.constraints)
        self.has_reward = problem.log.columns.reward is not None
        self.bounds = [None] * self.has_reward + [each.bound for each in found.constraints]
        tables = problem.log.has_tables
        (first,) = problem.log.reduce(SumGains(self.policies, names, tables), reward=True)
        count = len(self.bounds)
        logs = first.sums.logs
        per_policy = logs[: 3 * (2 + 2 * count)].reshape(3, 2 + 2 * count)
        self.log_total, self.log_square = per_policy[:, 0], per_policy[:, 1]
        self.low, self.high = first.low, first.high
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            parts = np.exp(per_policy[:, 2:] - self.log_total[:, None]).reshape(3, count, 2)
            self.mean = np.nan_to_num(parts[..., 0] - parts[..., 1])
            self.effective = np.nan_to_num(np.exp(2 * self.log_total - self.log_square))
        self.changed_logs = logs[-2:] if tables else None
        self.centers = np.array([[self._center(p, q) for q in range(count)] for p in range(3)])
        totals = tuple(float(t) if t > -np.inf else 0.0 for t in self.log_total)
        kernel = SumMoves(
            self.policies,
            names,
            totals,  # type: ignore[arg-type]
            tuple(map(tuple, self.mean.tolist())),
            tuple(map(tuple, self.centers.tolist())),
        )
        (second,) = problem.log.reduce(kernel, reward=True)
        self.moves = second.logs[: count * 15].reshape(count, 15)
        self.less = second.logs[count * 15 :]

    def gain(self) -> Gain:
        """The estimates."""
        family, log_beta = self.problem.family, self.found.log_beta
        means = [self._means(q) for q in range(len(self.bounds))]
        names = [each.name for each in self.found.constraints]
        return Gain(
            log_beta=log_beta,
            rows=self.rows,
            reward=means[0] if self.has_reward else None,
            losses=dict(zip(names, means[self.has_reward :], strict=True)),
            changed=self._changed(),
            traffic=family.optimized_share(log_beta) if family.single_draw else None,
            confidence=self.confidence,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> list[str]:
        if not self.problem.log.has_draws or self.problem.family.normalized:
            return []
        notes = [
            "weights come from draws: the share of decisions that change is a little too large"
        ]
        if self.problem.sharing:
            notes.append(SHARED_DRAWS_NOTE)
        return notes

    def _means(self, q: int) -> PolicyMeans:
        lacking = (None, self._missing, why_not_shown(self._clearly_below_one(2)))
        policies = [self._mean(p, q, missing) for p, missing in enumerate(lacking)]
        unknown = next((each for each in (policies[1], policies[0]) if not each.known), None)
        return PolicyMeans(policies[0], policies[1], policies[2], unknown or self._difference(q))

    def _mean(self, p: int, q: int, missing: str | None) -> WeightedMean:
        effective, mean, bound = float(self.effective[p]), float(self.mean[p, q]), self.bounds[q]
        if unknown := why_too_few(effective) or missing:
            return WeightedMean(None, None, None, effective, unknown)
        if bound is None:
            half = np.inf
            if self.high[p, q] > self.low[p, q]:
                half = student_quantile(self.confidence, effective - 1) * self._error(q, p)
            return WeightedMean(mean, mean - half, mean + half, effective)
        squares = float(np.exp(self.moves[q, 12 + p]))
        low, high = bounded_interval(effective, self.centers[p, q], squares, bound, self.confidence)
        return WeightedMean(min(max(mean, low), high), low, high, effective)

    def _difference(self, q: int) -> WeightedMean:
        effective = float(min(self.effective[:2]))
        if self.found.log_beta == -np.inf:
            return WeightedMean(0.0, 0.0, 0.0, effective)
        stated = self.bounds[q]
        bound = np.inf if stated is None else stated
        middle = float(self.mean[1, q] - self.mean[0, q])
        half = np.inf
        if self.high[:2, q].max() > self.low[:2, q].min():
            half = student_quantile(self.confidence, effective - 1) * self._error(q, 3)
        limits = [float(np.clip(middle + side, -bound, bound)) for side in (-half, 0.0, half)]
        return WeightedMean(limits[1], limits[0], limits[2], effective)

    def _error(self, q: int, which: int) -> float:
        """The jackknife's standard error, of a policy or of the difference (3)."""
        positive, negative, square = np.exp(self.moves[q, 3 * which : 3 * which + 3])
        spread = square - (positive - negative) ** 2 / self.rows
        return float(np.sqrt(max(spread, 0.0) * (self.rows - 1) / self.rows))

    def _center(self, p: int, q: int) -> float:
        bound = self.bounds[q]
        if bound is None:
            return 0.0
        added = student_quantile(self.confidence, np.inf) ** 2
        effective = float(self.effective[p])
        center = (effective * self.mean[p, q] + added * bound / 2) / (effective + added)
        return float(center)

    @cached_property
    def _missing(self) -> str | None:
        """Why the log does not tell what the tethered policy does, as in `missing_actions`."""
        problem, log_beta = self.problem, self.found.log_beta
        if log_beta == -np.inf:
            return None
        log = problem.log
        if problem.family.normalized or log.has_tables or log.has_draws:
            return why_not_shown(self._clearly_below_one(1))
        if not problem.family.clips or not problem.normalizer_cancels:
            return None
        shown = self._clearly_below_one(2)
        if shown is None:
            return None
        with np.errstate(over="ignore"):
            seen = float(np.exp(self.log_total[1] - np.log(self.rows)))
        return why_not_seen(shown, seen, log_beta, self.rows)

    def _clearly_below_one(self, p: int) -> float | None:
        """The mean of a policy's weights where it is below one by more than chance explains."""
        logs = np.array([self.log_total[p], self.log_square[p]]) - np.log(self.rows)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, square = np.exp(logs).tolist()
            error = float(np.sqrt(np.maximum(square - mean**2, 0.0) / self.rows))
        return mean if mean + MISSING_STANDARD_ERRORS * error < 1 else None

    def _changed(self) -> WeightedMean:
        rows = self.rows
        if self.found.log_beta == -np.inf:
            return WeightedMean(0.0, 0.0, 0.0, float(rows))
        if rows < LEAST_EFFECTIVE_ROWS:
            return changed_mean(rows, 0.0, 0.0, self.confidence)
        if self.changed_logs is None and self._missing:
            return WeightedMean(None, None, None, float(rows), self._missing)
        if self.changed_logs is not None:
            mean, square = np.exp(self.changed_logs - np.log(rows)).tolist()
        else:
            totals = tuple(self.log_total[:2].tolist())
            mean, square = linearized(self.problem, self.policies, totals, self.less)
        return changed_mean(rows, mean, square, self.confidence)
