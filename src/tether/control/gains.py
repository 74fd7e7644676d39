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

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.rows import Block
from tether._core.words import Described, Description
from tether.control.engine import Problem, scores

if TYPE_CHECKING:
    from tether.control.calibration import Calibration

CONFIDENCE = 0.95  # the probability of the intervals
POLICIES = ("safe", "tethered", "optimized")
LEAST_EFFECTIVE_ROWS = 30.0  # with fewer effective rows than this, no mean is stated
LEAST_SHOWN, MISSING_ERRORS = 0.85, 4.0
"""No mean is stated where the mean weight is below this, or this many standard errors below 1."""
LARGEST_LOG = 300.0  # larger log-weights count as this one, whose exponential has a finite square


@dataclass(frozen=True)
class WeightedMean:
    """An estimated mean with an approximate interval, or why there is none.

    Parameters
    ----------
    mean, lower, upper : float, optional
        The estimate and its interval; None if the log does not tell.
    unknown : str, optional
        Why the log does not tell.
    """

    mean: float | None
    lower: float | None
    upper: float | None
    unknown: str | None = None

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return self.mean is not None

    def __str__(self) -> str:
        if self.mean is None:
            return f"unknown: {self.unknown}"
        return f"{self.mean:.4g} [{self.lower:.4g}, {self.upper:.4g}]"


@dataclass(frozen=True)
class PolicyMeans:
    """The mean of one quantity, a reward or a loss, under the three policies.

    Parameters
    ----------
    safe, tethered, optimized : WeightedMean
        The mean under each policy.
    difference : WeightedMean
        By how much it is larger under the tethered policy than under the safe one.
    """

    safe: WeightedMean
    tethered: WeightedMean
    optimized: WeightedMean
    difference: WeightedMean


@dataclass(frozen=True)
class Gain(Described):
    """What the tethered policy of a calibration is expected to bring, estimated from the log.

    Parameters
    ----------
    log_beta : float
        Log of the calibrated beta.
    rows : int
        The number of rows of the log.
    reward : PolicyMeans, optional
        The expected rewards; None if the log has none.
    losses : dict of str to PolicyMeans
        The expected losses, by name.
    changed : float
        The share of decisions that change: the mean over contexts of the total variation distance
        between the safe and the tethered policy.
    traffic : float, optional
        The share of actions drawn from the optimized policy; None unless the family is mix.
    notes : tuple of str
        What the intervals do not allow for.

    Examples
    --------
    >>> import numpy as np, tether
    >>> rng = np.random.default_rng(0)
    >>> actions = rng.normal(size=500)
    >>> log = tether.Log(actions > 1.5, -actions**2 / 2, -(actions - 1)**2 / 2, reward=actions)
    >>> found = tether.calibrate(log, alpha=0.2).gain
    >>> round(found.reward.difference.mean, 2), round(found.changed, 2)
    (0.82, 0.35)
    """

    log_beta: float
    rows: int
    reward: PolicyMeans | None
    losses: dict[str, PolicyMeans]
    changed: float
    traffic: float | None
    notes: tuple[str, ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """What the summary of a calibration says about its gain."""
        return [
            (f"{name}, estimated", f"{means.tethered}; the safe policy's is {means.safe}")
            for name, means in self._quantities()
        ]

    def _describe(self) -> Description:
        facts = [
            (f"{quantity}, {policy}", str(getattr(means, policy)))
            for quantity, means in self._quantities()
            for policy in (*POLICIES, "difference")
        ]
        facts.append(("decisions that change", f"{self.changed:.4g}"))
        if self.traffic is not None:
            facts.append(("traffic to optimized", f"{self.traffic:.4g}"))
        return Description(
            f"gain, estimated from {self.rows:,} rows, with approximate {CONFIDENCE:g} intervals",
            facts=tuple(facts),
            warnings=self.notes,
            notes=("estimates, not promises: beta was found on the same rows",),
        )

    def _quantities(self) -> Iterator[tuple[str, PolicyMeans]]:
        if self.reward is not None:
            yield "reward", self.reward
        for name, means in self.losses.items():
            yield "loss" if name == "loss" else f"loss[{name}]", means


# ---- from the rows -----------------------------------------------------------------------------


def measure_gain(problem: Problem, found: Calibration) -> Gain:
    """One pass over the rows of the problem that a calibration was found on.

    The tethered policy is the one that is served: with a chain that is spread, all its betas. The
    optimized policy is the one that was given, without a blend.
    """
    t, shares = np.array([found.log_beta]), np.array([0.0, 1.0])
    if found.chain is not None and found.chain.spread:
        t, shares = found.chain.log_betas, np.asarray(found.chain.probabilities)
    served = (shares[1:] > 0) & (t > -np.inf)
    kernel, t, weight_of = problem.kernel, problem.kernel.at(t[served]), shares[1:][served]
    unit = kernel.log_unit(problem, t)[:, None] if len(t) else np.zeros((0, 1))

    def one_pass(block: Block) -> dict[str, Any]:
        ratio, base = scores(block)
        if "log_drawn" in block:
            ratio = block["log_drawn"] - block["log_safe"]
        weights = np.exp(np.minimum([base, base, base + ratio], LARGEST_LOG))
        if len(t):
            log_w = kernel.weigh(block, t, problem).log_w
            at_betas = np.exp(np.minimum(log_w - unit, LARGEST_LOG))
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
    size = kernel.size if len(t) < 2 else max(64, (1 << 20) // len(t))
    sums = problem.rows.reduce(one_pass, how, size)
    rows, has_reward = int(sums["rows"]), "reward" in problem.rows.names
    names = [each.name for each in problem.constraints]
    bounds = [None] * has_reward + [each.bound for each in problem.constraints]
    unknown = _unknown(sums["sums"][0], rows, found)
    means = []
    for own, ends, bound in zip(sums["sums"], sums["ends"].T * [-1, 1], bounds, strict=True):
        nothing = [WeightedMean(None, None, None, why) for why in unknown]
        each = [
            nothing[p] if unknown[p] else _interval(own, p, sums["most"], ends, bound)
            for p in range(3)
        ]
        difference = nothing[1] if unknown[1] else nothing[0]
        if found.log_beta == -np.inf:
            difference = WeightedMean(0.0, 0.0, 0.0)
        elif not (unknown[0] or unknown[1]):
            difference = _difference(own, sums["most"], ends, bound, rows)
        means.append(PolicyMeans(each[0], each[1], each[2], difference))
    family, notes = problem.family, []
    routed = [family.optimized_share(k) or 0.0 for k in t] if family.single_draw else None
    if kernel.from_draws:
        notes = ["weights come from draws: the share of decisions that change is a bit too large"]
        if problem.shares_draws:
            notes.append("rows share draws, whose common noise no interval allows for")
    return Gain(
        log_beta=found.log_beta,
        rows=rows,
        reward=means[0] if has_reward else None,
        losses=dict(zip(names, means[has_reward:], strict=True)),
        changed=float(min(sums["changed"] / rows, 1.0)),
        traffic=None if routed is None else float(weight_of @ routed),
        notes=tuple(notes),
    )


def _products(weights: Floats) -> Floats:
    """The weights of the three policies, their squares, and those of safe times tethered."""
    return np.concatenate((weights, weights**2, weights[:1] * weights[1:2]))


def _unknown(sums: Floats, rows: int, found: Calibration) -> list[str | None]:
    """Why the log does not tell the means under each policy, where it does not."""
    mean, square = sums[2, 0] / rows, sums[5, 0] / rows
    error = np.sqrt(max(square - mean**2, 0.0) / rows)
    missing = mean < LEAST_SHOWN or mean + MISSING_ERRORS * error < 1
    measured, why = found.measured, []
    shown = 1.0, 1.0 if measured.covered else measured.coverage, mean if missing else 1.0
    for part, effective in zip(shown, _effective(sums), strict=True):
        why.append(
            None if part == 1 else f"the log shows about {part:.0%} of what this policy does"
        )
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
