"""What a calibration buys, estimated from its log: rewards, losses, and how much changes.

With weights w_i = policy/mixture density and values v_i, the mean under the policy is estimated by
Σ w_i·v_i / Σ w_i. With the shares s_i = w_i / Σ w_i it is worth m = 1/Σ s_i² rows, and its variance
is about Σ s_i²·(v_i − mean)², which misses the rows that are rare and heavy. So each end of an
interval is computed with one more row, of the largest weight seen and the extreme value seen on
that side; and nothing is stated where the mean weight shows that heavy rows are missing.

Rewards have the interval of Student's t with m − 1 degrees of freedom; losses in [0, B] that of
Agresti and Coull, which adds z²/2 rows with the value 0 and as many with the value B.

These are estimates, not promises: beta was found on the same rows, so that the estimated loss at
beta is a little too small on average. `benchmarks.gains` measures how often intervals cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import Block
from tether.control.calibration import Calibration
from tether.control.engine import LAST, Problem, scores
from tether.control.gains import CONFIDENCE, Gain, PolicyMeans, WeightedMean

LEAST_EFFECTIVE_ROWS = 30.0  # with fewer effective rows than this, no mean is stated
LEAST_SHOWN, MISSING_ERRORS = 0.85, 4.0
"""No mean is stated where the mean weight is below this, or this many standard errors below 1."""
LARGEST_LOG = 300.0  # larger log-weights count as this one, whose exponential has a finite square


def measure_gain(problem: Problem, found: Calibration) -> Gain:
    """One pass over the rows of the problem that a calibration was found on.

    The tethered policy is the one that is served: with a chain that is spread, all its betas. The
    optimized policy is the one that was given, without a blend.
    """
    t, shares = np.array([found.log_beta]), np.array([0.0, 1.0])
    if found.chain is not None and found.chain.spread:
        shares = np.asarray(found.chain.probabilities)
        served = shares[1:] > 0
        t, shares = found.chain.log_betas[served], np.append(shares[0], shares[1:][served])
    if found.log_beta == -np.inf:
        t, shares = t[:0], np.ones(1)
    kernel = problem.kernel
    t = np.clip(t, -LAST, LAST) if kernel.nested else t
    unit = kernel.log_unit(problem, t)[:, None] if len(t) else np.zeros((0, 1))

    def one_pass(block: Block) -> dict[str, Any]:
        ratio, base = scores(block)
        if "log_drawn" in block:
            ratio = block["log_drawn"] - block["log_safe"]
        weights = np.exp(np.minimum([base, base, base + ratio], LARGEST_LOG))
        if len(t):
            log_w = kernel.weigh(block, t, problem).log_w
            at_betas = np.exp(np.minimum(log_w - unit, LARGEST_LOG))
            weights[1] = shares[0] * weights[0] + shares[1:] @ at_betas
        rewards = [block["reward"]] if "reward" in block else []
        values = np.array(rewards + [each.loss(block) for each in problem.constraints])
        products = np.concatenate((weights, weights**2, weights[:1] * weights[1:2]))
        return {
            "rows": len(base),
            "sums": np.array([products @ np.stack((v**0, v, v**2), axis=1) for v in values]),
            "most": weights.max(axis=1),
            "high": values.max(axis=1),
            "low": (-values).max(axis=1),
            "changed": np.maximum(weights[0] - weights[1], 0.0).sum(),
        }

    how = dict.fromkeys(("rows", "sums", "changed"), "sum")
    how |= dict.fromkeys(("most", "high", "low"), "max")
    size = kernel.size if len(t) < 2 else max(64, (1 << 20) // len(t))
    sums = problem.rows.reduce(one_pass, how, size)
    has_reward, names = "reward" in problem.rows.names, [each.name for each in problem.constraints]
    bounds = [None] * has_reward + [each.bound for each in problem.constraints]
    means = [_means(sums, k, bound, found) for k, bound in enumerate(bounds)]
    family, notes = problem.family, []
    routed = [family.optimized_share(k) for k in t] if family.single_draw else None
    if kernel.from_draws:
        notes = ["weights come from draws: the share of decisions that change is a bit too large"]
        if problem.shares_draws:
            notes.append("rows share draws, whose common noise no interval allows for")
    return Gain(
        log_beta=found.log_beta,
        rows=int(sums["rows"]),
        reward=means[0] if has_reward else None,
        losses=dict(zip(names, means[has_reward:], strict=True)),
        changed=float(min(sums["changed"] / sums["rows"], 1.0)),
        traffic=None if routed is None else float(shares[1:] @ routed),
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Sums:
    """Sums of w·(1, v, v²) and of w²·(1, v, v²), of one policy and one quantity."""

    first: Floats
    second: Floats

    def with_row(self, weight: float, value: float) -> _Sums:
        """The sums with one more row."""
        powers = value ** np.arange(3)
        return _Sums(self.first + weight * powers, self.second + weight**2 * powers)

    @property
    def effective(self) -> float:
        return float(self.first[0] ** 2 / self.second[0]) if self.second[0] > 0 else 0.0

    @property
    def mean(self) -> float:
        return float(self.first[1] / self.first[0])

    def spread(self, center: float) -> float:
        """Σ s²·(v − center)²."""
        total = float(self.second @ [center**2, -2 * center, 1.0])
        return max(total, 0.0) / float(self.first[0] ** 2)


def _means(found: dict[str, Any], k: int, bound: float | None, of: Calibration) -> PolicyMeans:
    """The means of quantity k, from sums over rows."""
    of_quantity = found["sums"][k]
    sums = [_Sums(of_quantity[p], of_quantity[3 + p]) for p in range(3)]
    ends, rows = (-found["low"][k], found["high"][k]), found["rows"]
    mean = sums[2].first[0] / rows
    error = np.sqrt(max(sums[2].second[0] / rows - mean**2, 0.0) / rows)
    missing = mean < LEAST_SHOWN or mean + MISSING_ERRORS * error < 1
    shown = 1.0, of.measured.coverage if not of.measured.covered else 1.0, mean if missing else 1.0
    policies, unknown = [], []
    for each, most, part in zip(sums, found["most"], shown, strict=True):
        why = None if part == 1.0 else f"the log shows about {part:.0%} of what this policy does"
        if each.effective < LEAST_EFFECTIVE_ROWS:
            why = f"the log is worth {each.effective:.3g} rows of this policy, too few to tell"
        nothing = WeightedMean(None, None, None, each.effective, why)
        policies.append(_interval(each, most, ends, bound) if why is None else nothing)
        unknown.append(why)
    effective, why = min(sums[0].effective, sums[1].effective), unknown[1] or unknown[0]
    if of.log_beta == -np.inf:
        difference = WeightedMean(0.0, 0.0, 0.0, effective)
    elif why is not None:
        difference = WeightedMean(None, None, None, effective, why)
    else:
        difference = _difference(sums, of_quantity[6], found["most"][1], rows, ends, bound)
    safe, tethered, optimized = policies
    return PolicyMeans(safe, tethered, optimized, difference)


def _interval(
    sums: _Sums, most: float, ends: tuple[float, float], bound: float | None
) -> WeightedMean:
    """The mean, and each end of its interval with one more row, the extreme one on that side."""
    found = []
    for side, value in zip((-1, 1), ends, strict=True):
        more = sums.with_row(most, value)
        if bound is None:
            half = _student_quantile(more.effective - 1) * more.spread(more.mean) ** 0.5
            found.append(more.mean + side * (half if ends[0] < ends[1] else np.inf))
            continue
        added = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) ** 2
        size, rows = more.effective, more.effective + added
        center = (size * more.mean + added * bound / 2) / rows
        variance = size**2 * more.spread(center) + added / 2 * (center**2 + (bound - center) ** 2)
        end = center + side * (added * max(variance, 0.0)) ** 0.5 / rows
        found.append(float(np.clip(end, 0.0, bound)))
    low, high = found
    mean = min(max(sums.mean, low), high)  # rounding errors may take it out of [0, bound]
    return WeightedMean(mean, float(low), float(high), sums.effective)


def _difference(
    sums: list[_Sums],
    both: Floats,
    most: float,
    rows: int,
    ends: tuple[float, float],
    bound: float | None,
) -> WeightedMean:
    """How much larger the mean is under the tethered policy than under the safe one.

    `both` has the sums of products of their weights: they share their rows, so the interval is
    narrower than those of the two means. The extreme row has a usual weight under safe.
    """
    effective = min(sums[0].effective, sums[1].effective)
    usual, found = sums[0].first[0] / rows, []
    for side, value in zip((-1, 1), ends, strict=True):
        safe, tethered = sums[0].with_row(usual, value), sums[1].with_row(most, value)
        products = both + most * usual * value ** np.arange(3)
        mean, other = tethered.mean, safe.mean
        shared = products @ [mean * other, -mean - other, 1.0]
        spread = tethered.spread(mean) + safe.spread(other)
        spread -= 2 * shared / (tethered.first[0] * safe.first[0])
        half = _student_quantile(effective - 1) * max(spread, 0.0) ** 0.5
        found.append(mean - other + side * (half if ends[0] < ends[1] else np.inf))
    middle, most_apart = sums[1].mean - sums[0].mean, np.inf if bound is None else bound
    low, high = np.clip(found, -most_apart, most_apart)
    return WeightedMean(middle, float(min(low, middle)), float(max(high, middle)), effective)


def _student_quantile(degrees: float) -> float:
    from scipy import special  # takes longer to import than numpy

    return float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2))
