"""Releases through the class and its store: what is served in every step, and when they stop.

A world has keys that come in a step and the risk of each under both systems, so the expected loss
of what is served is known. Each right rule is the package as it is; a wrong one is the package with
one function exchanged: a plug-in share, one pooled sample of keys that return, unknown outcomes
left out, bets in the order of arrival, no restarts, a share of 1 without a finish.

    python -m benchmarks.validity_releases [runs]   # the stop: failures until halt, by version
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import numpy as np

from benchmarks.cases import Case
from tether.runs import Release, decide_share, relative, watch
from tether.runs.shares import Guardrail, fresh_share

Array = np.ndarray


@dataclass(frozen=True)
class World:
    """Who comes in a step, what the new system does to them, and when outcomes are known.

    Of `regulars`, all come in every step; a part `harmed` of them loses with the new system for
    certain, and comes `often` times as likely as the others, or leaves once harmed. Visitors are
    new in every step and lose with `new_risk`.
    """

    name: str
    new_risk: float
    tolerated: float = 0.1
    old_risk: float = 0.02
    visitors: int = 300
    regulars: int = 0
    harmed: float = 0.0
    present: float = 1.0
    leave: bool = False
    steps: int = 8
    growth: float = 3.0
    sticky: bool = True
    guardrail: Guardrail | None = None
    turns_bad: int | None = None
    drift: float = 0.0
    """What is added to both risks, step by step."""
    late: tuple[float, float] = (0.0, 0.0)
    """How likely a loss of 1, and of 0, is known a step later only."""


@dataclass(frozen=True)
class Run:
    """Of each step: the excess loss served over the old system's, its share, its failures."""

    served: Array
    over_old: Array
    failures: Array
    halted: int | None


def simulate(world: World, rng: np.random.Generator, *, stop: float | None = None) -> Run:
    """One release."""
    limit = world.guardrail or Guardrail(world.tolerated)
    old = None if limit.is_relative else {"loss": (rng.random(2000) < world.old_risk) * 1.0}
    harmed = rng.random(world.regulars) < world.harmed
    gone = np.zeros(world.regulars, bool)
    served, over_old, failures, waiting, halted = [], [], [], [], None
    with Release(
        "sqlite://", {"loss": limit}, old=old, stop=stop, growth=world.growth, sticky=world.sticky
    ) as release:
        for step in range(1, world.steps + 1):
            if step > 1:
                release.advance()
            for keys, losses, who in waiting:
                release.observe(keys, {"loss": losses}, system=who)
            chance = np.where(harmed, 1.0, world.present) * ~gone
            regulars = np.flatnonzero(rng.random(world.regulars) < chance)
            keys = [f"r{k}" for k in regulars] + [f"{step}-{k}" for k in range(world.visitors)]
            rng.shuffle(keys)
            bad = world.turns_bad is not None and step >= world.turns_bad
            visitor = world.new_risk * (10 if bad else 1)
            risk = np.array([harmed[int(k[1:])] * 1.0 if k[0] == "r" else visitor for k in keys])
            level = world.drift * (step - 1)
            risk, old_risk = np.minimum(risk + level, 1.0), min(world.old_risk + level, 1.0)
            systems = np.array(release.assign(keys))
            new = systems == "new"
            lost = (rng.random(len(keys)) < np.where(new, risk, old_risk)) * 1.0
            later = rng.random(len(keys)) < np.where(lost > 0, *world.late)
            served.append(float(np.where(new, risk, old_risk).mean()))
            over_old.append(served[-1] - old_risk)
            failures.append(float(lost[new].sum()))
            known, unknown = np.flatnonzero(~later), np.flatnonzero(later)
            waiting = [_reported(keys, lost, systems, unknown)] if len(unknown) else []
            for part in np.array_split(known, 4):
                names, losses, who = _reported(keys, lost, systems, part)
                release.observe(names, {"loss": losses}, system=who)
                if halted is None and stop is not None and release.share == 0:
                    halted = step
                    failures[-1] = float(lost[: part[-1] + 1][new[: part[-1] + 1]].sum())
            if world.leave:
                names = [k for k in np.flatnonzero(new) if keys[k][0] == "r"]
                gone[[int(keys[k][1:]) for k in names if risk[k] >= 1]] = True
            if halted is not None:
                break
    return Run(*(np.array(each) for each in (served, over_old, failures)), halted)


def _reported(keys: list[str], lost: Array, systems: Array, part: Array) -> tuple:
    return [keys[k] for k in part], lost[part], systems[part].tolist()


# ---- wrong rules ------------------------------------------------------------------------------


def plug_in(inside: Array, added: Array, low: float, old: float, tolerated: float) -> float:
    """Wrong: the share that the mean loss so far would allow."""
    losses = np.append(inside, added)
    excess = (losses.mean() if len(losses) else 1.0) - old
    return 1.0 if excess <= tolerated - old else (tolerated - old) / excess


def pooled(inside: Array, added: Array, low: float, old: float, tolerated: float) -> float:
    """Wrong where harmed keys leave: all units vouch for the keys that are added."""
    return fresh_share(np.append(inside, added), old, tolerated)


def known_only(state: object, name: str, rows: Array, *more: object, **named: object) -> Array:
    """Wrong: outcomes that are not known are left out, as if they were like the known ones."""
    losses = state.loss(name)[rows] / state.given.limits[name].bound
    return np.where(np.isnan(losses), np.nanmean(losses) if len(losses) else 0.0, losses)


class ArrivalStop(watch.Stop):
    """Wrong: bets on outcomes in the order in which they arrive, and on nothing unknown."""

    def _move(self, state: object, place: int, rows: Array, scaled: Array, sign: int) -> None:
        if scaled is not None:
            super()._move(state, place, rows, scaled, sign)


def first_step_only(
    self: watch.Stop, place: int, end: int, kind: int, *, over: bool = False
) -> float:
    """Too slow: one capital since the first step, without restarts."""
    total = self.sums[:end, place, kind].sum(axis=(0, 1))
    return float(np.logaddexp.reduce(total) - np.log(len(total)))


def largest_reached(self: watch.Stop, state: object) -> bool:
    """Wrong: the largest share with old rows is taken for evidence that nothing is worse."""
    return bool(state.share >= decide_share.LARGEST_RELATIVE)


Patch = Callable[[], AbstractContextManager[object]]
RULES: dict[str, Patch] = {
    "": nullcontext,
    "plug-in share": lambda: patch.object(decide_share, "sticky_share", plug_in),
    "one pooled sample": lambda: patch.object(decide_share, "sticky_share", pooled),
    "unknown left out": lambda: patch.object(decide_share, "_scaled", known_only),
    "order of arrival": lambda: patch("tether.runs.state.Stop", ArrivalStop),
    "no restarts": lambda: patch.object(watch.Stop, "_log_wealth", first_step_only),
    "share 1 without a finish": lambda: patch.object(watch.Stop, "is_finished", largest_reached),
}

# ---- cases ------------------------------------------------------------------------------------

RETURNING = World(
    "900 regulars, 15 % harmed, 100 visitors", 0.0, regulars=900, harmed=0.15, visitors=100
)
LATE = World("0.25, harmless outcomes known sooner", 0.25, late=(0.9, 0.1))
RELATIVE = World(
    "relative, 0.035 against 0.02",
    0.035,
    guardrail=relative(0.01),
    visitors=400,
    steps=15,
    sticky=False,
)


def risks(world: World, rule: str, rng: np.random.Generator) -> Array:
    """What is served in every step, without the stop: the share rule alone."""
    with RULES[rule]():
        run = simulate(world, rng)
    return run.over_old if world.guardrail is not None else run.served


def halts(world: World, rule: str, rng: np.random.Generator) -> float:
    """Whether a version within its guardrail is stopped."""
    with RULES[rule]():
        return simulate(world, rng, stop=0.05).halted is not None


def cost(world: World, rule: str, rng: np.random.Generator) -> float:
    """Failures of the new system until the halt, or in all steps; from the step it turns bad."""
    with RULES[rule]():
        run = simulate(world, rng, stop=0.05)
    return float(run.failures[(world.turns_bad or 1) - 1 :].sum())


def cases() -> Iterator[Case]:
    """Every rule where it holds, and the wrong ones where they break."""

    def case(measure: Callable[..., object], world: World, rule: str, limit: float, runs: int):
        name = f"release, {world.name}" + (f", {rule}" if rule else "")
        return Case(name, partial(measure, world, rule), limit, bool(rule), runs)

    for new_risk in (0.05, 0.2, 1.0):
        world = World(f"visitors, new {new_risk:g}", new_risk)
        yield case(risks, world, "", 0.1, 60)
    few = World("40 visitors, new 0.5", 0.5, visitors=40)
    yield case(risks, few, "", 0.1, 150)
    yield case(risks, few, "plug-in share", 0.1, 150)
    yield case(risks, LATE, "", 0.1, 60)
    yield case(risks, LATE, "unknown left out", 0.1, 60)
    yield case(risks, RETURNING, "", 0.1, 25)
    rarer = replace(RETURNING, name="regulars, harmed come 3 times as often", present=1 / 3)
    yield case(risks, rarer, "", 0.1, 25)
    leave = replace(RETURNING, name="regulars, harmed leave", leave=True, harmed=0.3, growth=1e5)
    yield case(risks, leave, "", 0.1, 25)
    yield case(risks, leave, "one pooled sample", 0.1, 25)
    yield case(risks, RELATIVE, "", 0.01, 60)
    drift = replace(RELATIVE, name="relative, both drift up", drift=0.01)
    yield case(risks, drift, "", 0.01, 60)
    yield case(risks, RELATIVE, "share 1 without a finish", 0.01, 60)
    for new_risk in (0.08, 0.1):
        good = World(f"false halts at {new_risk:g} of 0.1", new_risk, steps=10)
        yield case(halts, good, "", 0.05, 60)
    slow = World("false halts at 0.08, harmless late", 0.08, steps=10, late=(0.0, 0.9))
    yield case(halts, slow, "", 0.05, 60)
    yield case(halts, slow, "order of arrival", 0.05, 60)
    turns = World("failures after step 10 turns bad", 0.03, turns_bad=10, steps=14)
    yield case(cost, turns, "", 90, 30)
    yield case(cost, turns, "no restarts", 90, 30)


def main(runs: int) -> None:
    """Failures until the halt at 2, 3 and 6 times what is tolerated, beside no stop at all."""
    print(f"{runs} releases each, tolerated 0.05, 1,000 keys a step, 12 steps")
    for factor in (0.4, 0.8, 1.0, 2.0, 3.0, 6.0):
        world = World("", 0.05 * factor, 0.05, 0.01, visitors=1000, steps=12)
        rng = np.random.default_rng(0)
        found = [simulate(world, rng, stop=0.05) for _ in range(runs)]
        without = [simulate(world, rng).failures.sum() for _ in range(max(runs // 4, 1))]
        halted = np.mean([each.halted is not None for each in found])
        failed = np.mean([each.failures.sum() for each in found])
        print(
            f"  {factor:g} times tolerated: halted {halted:5.1%}, failures {failed:6.1f}, without "
            f"the stop {np.mean(without):6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
