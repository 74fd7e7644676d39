"""What a release will take: keys and steps to full share, and what a bad version would cost.

The rules of the release itself are run on simulated keys, each of which comes once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from tether._core import validate
from tether._core.arrays import Booleans, Floats
from tether._core.words import Columns, Described, Description
from tether.runs.shares import (
    GROWTH_FACTOR,
    LARGEST_RELATIVE,
    Guardrail,
    grown,
    relative_share,
    relative_sticky_share,
    sticky_share,
)
from tether.runs.watch import FEWEST_FAILURES, log_factors, log_wealth, relative_log_factors

MULTIPLES = (2, 3, 6)
"""How bad a bad version is: so many times what is tolerated."""
SHOWN = math.log(1 / 0.05)
"""The log of the capital at which a release stops or finishes, by default."""
FULL = 0.99
"""The share that counts as everybody."""
MOST_STEPS = 60
"""A release that takes longer is not followed further."""


@dataclass(frozen=True)
class Version:
    """What is to be expected of a version under one guardrail, whose mean loss is `loss`.

    As expected, `steps` and `keys` are medians until everybody has it, infinite if most releases do
    not get there. Of a bad version `keys` come until it is stopped, `lost` is what it loses more
    than the old system would have, in units of the bound, and `stopped` the part of releases in
    which it is stopped, all on average.
    """

    guardrail: str
    version: str
    loss: float
    steps: float
    keys: float
    lost: float = math.nan
    stopped: float = math.nan


@dataclass(frozen=True)
class ReleasePlan(Described):
    """What `plan_release` found: for each guardrail the version as expected, and bad ones."""

    keys_per_step: int
    versions: tuple[Version, ...]

    @property
    def steps(self) -> float:
        """Until everybody has the new system: of the guardrail that takes longest."""
        return float(np.nanmax([each.steps for each in self.versions]))

    def _describe(self) -> Description:
        columns = {
            each.name: np.array([getattr(version, each.name) for version in self.versions])
            for each in fields(Version)
        }
        takes = f"{self.steps:.0f} steps and {(self.steps - 1) * self.keys_per_step:,.0f} keys"
        takes = takes if math.isfinite(self.steps) else f"more than {MOST_STEPS} steps"
        return Description(
            f"full share after {takes}, with {self.keys_per_step:,} keys a step",
            table=Columns(columns),
            notes=("Simulated: the rules of the release on keys that come once each.",),
        )


def plan_release(
    guardrails: Mapping[str, float | Guardrail],
    old: Mapping[str, float],
    keys_per_step: int,
    rng: np.random.Generator,
    *,
    new: Mapping[str, float] | None = None,
    runs: int = 100,
) -> ReleasePlan:
    """Say what a release takes, and what a bad version costs until it is stopped.

    Each guardrail is simulated as if it were the only one.

    Parameters
    ----------
    guardrails : mapping of str to float or Guardrail
        As for `Release`.
    old : mapping of str to float
        The old system's expected loss, for each guardrail.
    keys_per_step : int
        How many keys arrive in a step.
    rng : numpy.random.Generator
        Draws the keys' losses.
    new : mapping of str to float, optional
        The new system's expected loss; as large as the old one's by default.
    runs : int, default 100
        How many releases are simulated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> plan = plan_release({"error": 0.05}, {"error": 0.02}, 1000, rng, runs=20)
    >>> plan.steps, plan.versions[-1].version, plan.versions[-1].stopped
    (4.0, '6 times', 1.0)
    """
    validate.generator("rng", rng)
    keys_per_step = validate.integer("keys_per_step", keys_per_step, 1)
    found: list[Version] = []
    for name, each in guardrails.items():
        limit = each if isinstance(each, Guardrail) else Guardrail(each)
        if name not in old:
            raise ValueError(f"old must have {name!r}: the old system's expected loss")
        base = validate.number(f"old[{name!r}]", old[name], above=0, below=limit.bound)
        risk = validate.real(f"new[{name!r}]", (new or {}).get(name, base))
        world = _World(limit, base / limit.bound, keys_per_step)
        good = [world.release(risk / limit.bound, rng)[0] for _ in range(runs)]
        steps = float(np.median(good))
        found.append(Version(name, "as expected", risk, steps, (steps - 1) * keys_per_step))
        for times in MULTIPLES:
            bad, *cost = world.cost(times, runs, rng)
            found.append(Version(name, f"{times} times", bad * limit.bound, math.nan, *cost))
    return ReleasePlan(keys_per_step, tuple(found))


@dataclass(frozen=True)
class _World:
    """Releases with one guardrail and losses of 0 or 1."""

    limit: Guardrail
    old: float
    keys: int

    @property
    def rule(self) -> tuple[float, float]:
        """The difference and the ratio of a relative guardrail."""
        return self.limit.delta / self.limit.bound, self.limit.ratio

    @property
    def tolerated(self) -> float:
        """What the new system's own loss may be, over the bound."""
        if self.limit.tolerated is not None:
            return self.limit.tolerated / self.limit.bound
        return self.old + self.rule[0] + self.rule[1] * self.old

    def cost(self, times: int, runs: int, rng: np.random.Generator) -> tuple[float, ...]:
        """The loss of a version that is so many times as bad as is tolerated, and what it costs.

        The keys until it is stopped, what is lost, and how often it is stopped.
        """
        base = self.old if self.limit.is_relative else 0.0
        risk = min(base + times * (self.tolerated - base), 1.0)
        found = [self.release(risk, rng)[1:] for _ in range(runs)]
        keys, failures, stopped = np.mean(found, axis=0).tolist()
        return risk, keys, failures * (1 - self.old / risk), stopped

    def release(self, risk: float, rng: np.random.Generator) -> tuple[float, int, float, bool]:
        """One release until it is stopped, has full share, or has had the most steps.

        Its steps until full share, its keys and the failures of the new system, and whether it was
        stopped.
        """
        shares, keys, failures = [0.0], 0, 0.0
        sums, finish = list[Floats](), list[Floats]()
        position = losses = np.zeros(0)
        for step in range(1, MOST_STEPS + 1):
            shares.append(self._share(shares, position, losses, finish))
            if shares[-1] >= FULL and risk <= self.tolerated:
                return step, keys, failures, False
            position = rng.random(self.keys)
            is_new = position < shares[-1]
            losses = (rng.random(self.keys) < np.where(is_new, risk, self.old)).astype(float)
            failing = np.flatnonzero(is_new & (losses > 0))
            for place in failing[0 if sums else FEWEST_FAILURES - 1 :].tolist():
                until = slice(place + 1)  # only failures of the new system matter
                now = self._factors(is_new[until], losses[until], shares[-1])
                if log_wealth(np.array([*sums, now])) >= SHOWN:
                    lost = float(losses[until][is_new[until]].sum())
                    return math.inf, keys + place + 1, failures + lost, True
            keys, failures = keys + self.keys, failures + float(losses[is_new].sum())
            sums.append(self._factors(is_new, losses, shares[-1]))
            if self.limit.is_relative:
                finish.append(self._factors(is_new, losses, shares[-1], finish=True))
        return math.inf if shares[-1] < FULL else MOST_STEPS, keys, failures, False

    def _share(
        self, shares: list[float], position: Floats, losses: Floats, finish: list[Floats]
    ) -> float:
        last, low = shares[-1], min(shares[-2:])
        inside, is_new = position < low, position < last
        mine, added, old = losses[inside], losses[is_new & ~inside], losses[~is_new]
        if not self.limit.is_relative:
            share = sticky_share(mine, added, low, self.old, self.tolerated)
        elif finish and log_wealth(np.array(finish)) >= SHOWN:
            share = 1.0
        else:
            half = len(old) // 2 if low else 0
            within = relative_share(mine, old[:half], *self.rule)
            beyond = relative_share(added, old[half:], *self.rule)
            share = min(relative_sticky_share(within, beyond, low), LARGEST_RELATIVE)
        return grown(share, last, GROWTH_FACTOR) if last else share

    def _factors(
        self, is_new: Booleans, losses: Floats, share: float, *, finish: bool = False
    ) -> Floats:
        if not self.limit.is_relative:
            return log_factors(losses[is_new], self.tolerated)
        return relative_log_factors(losses, is_new, share, *self.rule, finish=finish)
