"""The rules of other release tools beside tether's, on the same simulated traffic.

An interval has 500 keys, the old system fails for 1 % of them, and 5 % is tolerated. Each key comes
once and has one uniform number, the same for every rule: it fails if the number is below the rate
of the system that answers. Outcomes are known at once. The other rules are models of the examples
in the tools' documentation, with the same tolerated rate; not modelled are other metrics, their
queries and delays.

- Argo Rollouts: 20, 40, 60 and 80 % for two intervals each, and in each a measurement of the new
  version's rate; aborted at the third above 5 % ("three such measurements"). The documentation's
  example measures from 40 % on, and its code aborts at the fourth: both let more failures through.
- Flagger: steps of 10 % up to 50 %, one interval each; a failed check does not advance; rolled back
  at the fifth failed check, else promoted.
- GrowthBook's safe rollout: 10, 25, 50, 75 and 100 % of the keys in an A/B test, half of them new,
  in the first quarter of ten intervals; rolled back if the new version is worse than the old one by
  a sequential test (one-sided, 95 %), shipped after the ten intervals. It asks whether a version is
  worse at all, not by how much.
- Fixed steps without analysis: 1, 5, 25 and 50 %, then everybody.
- tether: a step is an interval. The stop is judged after every 50 keys, or once in an interval as
  the others are. An absolute guardrail is told that the old system's rate is 1 %.

    python -m benchmarks.canaries [runs]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from benchmarks.validity_releases import Pure
from tether.runs import Guardrail, relative

Array = np.ndarray
KEYS, INTERVALS, OLD_RISK, TOLERATED = 500, 24, 0.01, 0.05
FACTORS = (0.2, 0.4, 0.8, 1.0, 2.0, 3.0, 6.0)
"""Rates of new versions, as multiples of what is tolerated."""


class Interval(NamedTuple):
    """What a rule learns of an interval: rows and failures of both systems."""

    new: int
    new_failures: int
    old: int
    old_failures: int


Rule = Iterator[float | None]
"""Gives the share of the next interval, is sent the interval, and ends with None: stopped."""


def argo() -> Rule:
    """Three measurements above the tolerated rate abort."""
    failed = 0
    for share in (0.2, 0.2, 0.4, 0.4, 0.6, 0.6, 0.8, 0.8):
        seen = yield share
        failed += seen.new_failures > TOLERATED * seen.new
        if failed == 3:
            yield None
    while True:
        yield 1.0


def flagger() -> Rule:
    """Five failed checks roll back; only a passed one advances."""
    failed, share = 0, 0.1
    while share <= 0.5 + 1e-9:
        seen = yield share
        if seen.new_failures > TOLERATED * seen.new:
            failed += 1
            if failed == 5:
                yield None
        else:
            share += 0.1
    while True:
        yield 1.0


def growthbook() -> Rule:
    """A sequential test against the old system, whose rows are those of the same experiment."""
    counts = np.zeros(4)
    for coverage in (0.175, 0.625, *[1.0] * 8):  # two steps in each of the first two intervals
        seen = yield coverage / 2
        old = min(seen.old, seen.new)  # the control group; the others are not in the test
        counts += (seen.new, seen.new_failures, old, seen.old_failures * old / max(seen.old, 1))
        if counts[0] and counts[2] and is_worse(*counts):
            yield None
    while True:
        yield 1.0


def is_worse(new: float, new_failures: float, old: float, old_failures: float) -> bool:
    """An asymptotic confidence sequence for the difference of means, tuned for 5,000 rows."""
    rates = new_failures / new, old_failures / old
    error = sum(p * (1 - p) / n for p, n in zip(rates, (new, old), strict=True))
    rows, level = new + old, 0.05
    tuned = (-2 * math.log(level) + math.log(1 - 2 * math.log(level))) / 5000
    grown = rows * tuned + 1
    width = math.sqrt(
        error * 2 * grown / (rows * tuned) * math.log(1 + math.sqrt(grown) / (2 * level))
    )
    return rates[0] - rates[1] > width


def fixed_steps() -> Rule:
    """Nothing is measured."""
    for share in (0.01, 0.05, 0.25, 0.5, *[1.0] * INTERVALS):
        _ = yield share


class Outcome(NamedTuple):
    """Whether it was stopped, the failures of the new version, and keys until full share."""

    stopped: bool
    failures: int
    until_full: float


def followed(make: Callable[[], Rule], uniforms: Array, risk: float) -> Outcome:
    """A rule on the traffic; the first keys of an interval are the new version's."""
    rule = make()
    failures, share = 0, next(rule)
    for number, interval in enumerate(uniforms):
        if share is None:
            return Outcome(True, failures, math.inf)
        if share >= 1:
            rest = int((uniforms[number:] < risk).sum())
            return Outcome(False, failures + rest, number * KEYS)
        new = round(share * KEYS)
        lost = int((interval[:new] < risk).sum()), int((interval[new:] < OLD_RISK).sum())
        failures += lost[0]
        share = rule.send(Interval(new, lost[0], KEYS - new, lost[1]))
    return Outcome(share is None, failures, math.inf)


def released(guardrail: Guardrail, calls: int, uniforms: Array, risk: float) -> Outcome:
    """The rules of a release on the same traffic, with so many calls in an interval."""
    old = None if guardrail.is_relative else OLD_RISK
    release = Pure(guardrail, old, np.random.default_rng(int(uniforms[0, 0] * 2**53)))
    failures, full = 0, math.inf
    for number, interval in enumerate(uniforms):
        if number:
            release.advance()
        if release.share >= 1 and full == math.inf:
            full = number * KEYS
        for batch in np.array_split(np.arange(KEYS), calls):
            keys = number * KEYS + batch
            new = release.assign(keys)
            lost = interval[batch] < np.where(new, risk, OLD_RISK)
            failures += int(lost[new].sum())
            release.observe(keys, new, lost * 1.0)
            if release.halted:
                return Outcome(True, failures, full)
    return Outcome(False, failures, full)


RULES: dict[str, Callable[[Array, float], Outcome]] = {
    "fixed steps": partial(followed, fixed_steps),
    "Argo Rollouts": partial(followed, argo),
    "Flagger": partial(followed, flagger),
    "GrowthBook": partial(followed, growthbook),
    "tether, at most 5 %": partial(released, Guardrail(TOLERATED), 10),
    "the same, judged once": partial(released, Guardrail(TOLERATED), 1),
    "tether, at most 4 % worse": partial(released, relative(TOLERATED - OLD_RISK), 10),
}


def main(runs: int) -> None:
    """One line for every rule and version."""
    print(f"{runs} releases, {INTERVALS} intervals of {KEYS} keys, {TOLERATED:.0%} tolerated")
    print(f"{'':28}{'rate':>6} {'stopped':>16} {'failures':>16} {'keys until full share':>22}")
    for factor in FACTORS:
        risk, rng = factor * TOLERATED, np.random.default_rng(0)
        traffic = [rng.random((INTERVALS, KEYS)) for _ in range(runs)]
        for name, rule in RULES.items():
            outcomes = [rule(each, risk) for each in traffic]
            stopped = np.mean([each.stopped for each in outcomes])
            failed = np.array([each.failures for each in outcomes])
            errors = (stopped * (1 - stopped) / runs) ** 0.5, failed.std() / runs**0.5
            full = np.median([each.until_full for each in outcomes])
            until = "never" if np.isinf(full) else f"{full:,.0f}"
            text = f"{stopped:8.1%} ± {errors[0]:5.1%} {failed.mean():9.1f} ± {errors[1]:4.1f}"
            print(f"{name:28}{risk:6.0%} {text} {until:>22}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
