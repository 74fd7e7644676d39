"""What a calibration buys, estimated from its log: rewards, losses, and how much changes.

With weights w_i = policy/mixture density and values v_i, the mean under the policy is estimated by
Σ w_i·v_i / Σ w_i. With the shares s_i = w_i / Σ w_i it is worth m = 1/Σ s_i² rows, and its variance
is about Σ s_i²·(v_i − mean)², which misses the rows that are rare and heavy. So each end of an
interval is computed with one more row, of the largest weight seen and the extreme value seen on
that side; and nothing is stated where the mean weight shows that heavy rows are missing.

Rewards have the interval of Student's t with m − 1 degrees of freedom; losses in [0, B] that of
Agresti and Coull, which adds z²/2 rows with the value 0 and as many with the value B.

No interval allows for the common noise of rows that share draws.

These are estimates, not promises: beta was found on the same rows, so that the estimated loss at
beta is a little too small on average. `benchmarks.gains` measures how often intervals cover.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import Block, Pass
from tether.control.chain import Chain
from tether.control.engine import LARGEST_BASE, Measured, Problem, scores
from tether.control.gains import CONFIDENCE, Gain, PolicyMeans, WeightedMean

LEAST_EFFECTIVE_ROWS = 30.0  # with fewer effective rows than this, no mean is stated
LEAST_SHOWN, MISSING_ERRORS = 0.85, 4.0
"""No mean is stated where the mean weight is below this, or this many standard errors below 1."""


def served_betas(problem: Problem, log_beta: float, chain: Chain | None) -> tuple[Floats, Floats]:
    """The log betas that are served, with a chain that is spread several, and their shares."""
    t, shares = np.array([log_beta]), np.array([0.0, 1.0])
    if chain is not None and chain.spread:
        t, shares = chain.log_betas, chain.probabilities
    served = (shares[1:] > 0) & (t > -np.inf)
    return problem.kernel.at(t[served]), shares[1:][served]


def gain_pass(problem: Problem, log_beta: float, chain: Chain | None) -> Pass:
    """Sums over the rows of the problem that a calibration was found on.

    The tethered policy is the one that is served: with a chain that is spread, all its betas. The
    optimized policy is the one that was given, without a blend.
    """
    kernel, (t, weight_of) = problem.kernel, served_betas(problem, log_beta, chain)
    unit = kernel.log_unit(problem, t)[:, None] if len(t) else np.zeros((0, 1))

    def one_pass(block: Block) -> dict[str, Any]:
        ratio, base = scores(block)
        if "log_drawn" in block:
            ratio = block["log_drawn"] - block["log_safe"]
        weights = np.exp(np.minimum([base, base, base + ratio], LARGEST_BASE))
        if len(t):
            log_w = kernel.weigh(block, t, problem).log_w
            at_betas = np.exp(np.minimum(log_w - unit, LARGEST_BASE))
            weights[1] = (1 - weight_of.sum()) * weights[0] + weight_of @ at_betas
        rewards = [block["reward"]] if "reward" in block else []
        values = np.array(rewards + [each.loss(block) for each in problem.constraints])
        products = _products(weights)
        return {
            "rows": len(base),
            "sums": np.array([products @ np.stack((v**0, v, v**2), axis=1) for v in values]),
            "most": weights.max(axis=1),
            "ends": np.array([-values.min(axis=1), values.max(axis=1)]),
            "changed": np.maximum(weights[0] - weights[1], 0.0).sum(),
        }

    how = dict.fromkeys(("rows", "sums", "changed"), "sum") | {"most": "max", "ends": "max"}
    return Pass(one_pass, how, kernel.size if len(t) < 2 else max(64, (1 << 20) // len(t)))


def make_gain(
    problem: Problem, log_beta: float, chain: Chain | None, measured: Measured, sums: dict[str, Any]
) -> Gain:
    """What the sums say about the gain."""
    t, weight_of = served_betas(problem, log_beta, chain)
    rows, has_reward = int(sums["rows"]), "reward" in problem.rows.names
    names = [each.name for each in problem.constraints]
    bounds = [None] * has_reward + [each.bound for each in problem.constraints]
    unknown = _unknown(sums["sums"][0], rows, measured)
    means = []
    for own, ends, bound in zip(sums["sums"], sums["ends"].T * [-1, 1], bounds, strict=True):
        each = [
            WeightedMean(None, None, None, why)
            if why
            else _interval(own, policy, sums["most"], ends, bound)
            for policy, why in enumerate(unknown)
        ]
        difference = each[1] if unknown[1] else each[0]
        if log_beta == -np.inf:
            difference = WeightedMean(0.0, 0.0, 0.0)
        elif not (unknown[0] or unknown[1]):
            difference = _difference(own, sums["most"], ends, bound, rows)
        means.append(PolicyMeans(each[0], each[1], each[2], difference))
    family = problem.family
    routed = [family.optimized_share(k) or 0.0 for k in t] if family.single_draw else None
    return Gain(
        reward=means[0] if has_reward else None,
        losses=dict(zip(names, means[has_reward:], strict=True)),
        changed=float(min(sums["changed"] / rows, 1.0)),
        traffic=None if routed is None else float(weight_of @ routed),
    )


def _products(weights: Floats) -> Floats:
    """The weights of the three policies, their squares, and those of safe times tethered."""
    return np.concatenate((weights, weights**2, weights[:1] * weights[1:2]))


def _unknown(sums: Floats, rows: int, measured: Measured) -> list[str | None]:
    """Why the log does not tell the means under each policy, where it does not."""
    mean, square = sums[2, 0] / rows, sums[5, 0] / rows
    error = np.sqrt(max(square - mean**2, 0.0) / rows)
    missing = mean < LEAST_SHOWN or mean + MISSING_ERRORS * error < 1
    shown = 1.0, 1.0 if measured.covered else measured.coverage, mean if missing else 1.0
    why: list[str | None] = []
    for part, effective in zip(shown, _effective(sums), strict=True):
        text = f"the log shows about {part:.0%} of what this policy does"
        why.append(None if part == 1 else text)
        if effective < LEAST_EFFECTIVE_ROWS:
            why[-1] = f"the log is worth {effective:.3g} rows of this policy, too few to tell"
    return why


def _effective(sums: Floats) -> Floats:
    """How many equally weighted rows the rows are worth under each policy."""
    return np.asarray(sums[:3, 0] ** 2 / np.where(sums[3:6, 0] > 0, sums[3:6, 0], np.inf))


def _with_row(sums: Floats, weights: Floats, value: float) -> Floats:
    """The sums with one more row."""
    return np.asarray(sums + np.outer(_products(weights[:, None]), value ** np.arange(3)))


def _mean(sums: Floats, policy: int) -> float:
    return float(sums[policy, 1] / sums[policy, 0])


def _spread(sums: Floats, policy: int, center: float) -> float:
    """Σ s²·(v − center)²."""
    total = float(sums[3 + policy] @ [center**2, -2 * center, 1.0])
    return max(total, 0.0) / float(sums[policy, 0] ** 2)


def _interval(
    sums: Floats, policy: int, most: Floats, ends: Floats, bound: float | None
) -> WeightedMean:
    """The mean, and each end of its interval with one more row, the extreme one on that side."""
    found = []
    for side, value in zip((-1, 1), ends.tolist(), strict=True):
        more = _with_row(sums, most, value)
        size, mean = float(_effective(more)[policy]), _mean(more, policy)
        if bound is None:
            half = _student_quantile(size - 1) * _spread(more, policy, mean) ** 0.5
            found.append(mean + side * (half if ends[0] < ends[1] else np.inf))
            continue
        added = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) ** 2
        center = (size * mean + added * bound / 2) / (size + added)
        variance = size**2 * _spread(more, policy, center)
        variance += added / 2 * (center**2 + (bound - center) ** 2)
        end = center + side * (added * max(variance, 0.0)) ** 0.5 / (size + added)
        found.append(float(np.clip(end, 0.0, bound)))
    low, high = found
    mean = min(max(_mean(sums, policy), low), high)  # rounding may take it out of [0, bound]
    return WeightedMean(mean, float(low), float(high))


def _difference(
    sums: Floats, most: Floats, ends: Floats, bound: float | None, rows: int
) -> WeightedMean:
    """How much larger the mean is under the tethered policy than under the safe one.

    They share their rows, so the interval is narrower than those of the two means. The extreme row
    has a usual weight under safe.
    """
    size, found = float(_effective(sums)[:2].min()), []
    weights = np.array([sums[0, 0] / rows, *most[1:]])
    for side, value in zip((-1, 1), ends.tolist(), strict=True):
        more = _with_row(sums, weights, value)
        other, mean = _mean(more, 0), _mean(more, 1)
        shared = more[6] @ [mean * other, -mean - other, 1.0] / (more[0, 0] * more[1, 0])
        spread = _spread(more, 1, mean) + _spread(more, 0, other) - 2 * shared
        half = _student_quantile(size - 1) * max(spread, 0.0) ** 0.5
        found.append(mean - other + side * (half if ends[0] < ends[1] else np.inf))
    middle, most_apart = _mean(sums, 1) - _mean(sums, 0), np.inf if bound is None else bound
    low, high = np.clip(found, -most_apart, most_apart)
    return WeightedMean(middle, float(min(low, middle)), float(max(high, middle)))


def _student_quantile(degrees: float) -> float:
    from scipy import special  # takes longer to import than numpy

    return float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2))
