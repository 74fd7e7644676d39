"""Releases through the class and its store: what is served in every step, and when they stop.

A world has keys that come in a step and the risk of each under both systems, so the expected loss
of what is served is known. Each right rule is the package as it is; a wrong one is the package with
one function exchanged: a plug-in share, a key's first unit alone, one pooled sample of keys that
return, unknown outcomes left out, bets in the order of arrival, no restarts, a share of 1 without a
finish. `make validity` runs the cases.

    python -m benchmarks.validity_releases [runs]   # what the stop and the limit on growth prevent
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np

from benchmarks.cases import Case
from tether.runs import Release, decide_share, relative, watch
from tether.runs.shares import Guardrail, fresh_share
from tether.runs.state import NEW, State

Array = np.ndarray
UNLIMITED = 1e5
"""A growth that limits nothing."""


@dataclass(frozen=True)
class World:
    """Who comes in a step, what the new system does to them, and when outcomes are known.

    Visitors are new in every step and lose with `new_risk`. Of `regulars`, those who are `harmed`
    lose with the new system for certain. They come in every step, or (`retry`) only once they have
    lost, or `leave` then; others come with probability `present`. Keys come in so many `calls`,
    each with its outcomes before the next, but for losses of 1 and of 0 that are `late` by a step
    with these probabilities. Both risks grow by `drift` in every step.
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
    retry: bool = False
    steps: int = 8
    calls: int = 1
    growth: float = 3.0
    sticky: bool = True
    guardrail: Guardrail | None = None
    turns_bad: int | None = None
    drift: float = 0.0
    late: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Run:
    """Of each step: the expected loss served, what it is more than the old system's, failures of
    the new system, and what both lost over what is tolerated."""

    served: Array
    over_old: Array
    failures: Array
    lost: Array
    halted: int | None


def simulate(world: World, rng: np.random.Generator, *, stop: float | None = None) -> Run:
    """One release."""
    limit = world.guardrail or Guardrail(world.tolerated)
    old = None if limit.is_relative else {"loss": (rng.random(2000) < world.old_risk) * 1.0}
    harmed = rng.random(world.regulars) < world.harmed
    met = np.zeros(world.regulars, bool)
    found, waiting, halted = [], [], None
    options = {"stop": stop, "growth": world.growth, "sticky": world.sticky}
    with Release("sqlite://", {"loss": limit}, old=old, **options) as release:
        for step in range(1, world.steps + 1):
            if step > 1:
                release.advance()
            while waiting:
                _report(release, *waiting.pop())
            chance = np.where(met if world.retry else harmed, 1.0, world.present)
            chance[met & world.leave] = 0.0
            regulars = np.flatnonzero(rng.random(world.regulars) < chance)
            keys = [f"r{k}" for k in regulars] + [f"{step}-{k}" for k in range(world.visitors)]
            rng.shuffle(keys)
            bad = world.turns_bad is not None and step >= world.turns_bad
            visitor, level = world.new_risk * (10 if bad else 1), world.drift * (step - 1)
            risk = np.array([harmed[int(k[1:])] * 1.0 if k[0] == "r" else visitor for k in keys])
            risk, old_risk = np.minimum(risk + level, 1.0), min(world.old_risk + level, 1.0)
            new, lost = np.zeros(len(keys), bool), np.zeros(len(keys))
            for call in np.array_split(np.arange(len(keys)), world.calls):
                systems = np.array(release.assign([keys[k] for k in call]))
                new[call] = systems == "new"
                lost[call] = rng.random(len(call)) < np.where(new[call], risk[call], old_risk)
                later = rng.random(len(call)) < np.where(lost[call] > 0, *world.late)
                _report(release, keys, lost, new, call[~later])
                waiting.append((keys, lost, new, call[later]))
                if stop is not None and (lost * new)[call].any() and release.share == 0:
                    halted = step
                    break
            served = np.where(new, risk, old_risk).mean()
            lost_part = lost.sum() / (world.tolerated * len(keys))
            found.append((served, served - old_risk, lost[new].sum(), lost_part))
            if halted is not None:
                break
            went = [int(keys[k][1:]) for k in np.flatnonzero(new) if keys[k][0] == "r"]
            met[went] = harmed[went]
    return Run(*np.array(found).T, halted)


def _report(release: Release, keys: list[str], lost: Array, new: Array, part: Array) -> None:
    who = np.where(new[part], "new", "old").tolist()
    release.observe([keys[k] for k in part], {"loss": lost[part]}, system=who)


# ---- wrong rules ------------------------------------------------------------------------------


def plug_in(inside: Array, added: Array, low: float, old: float, tolerated: float) -> float:
    """Wrong: the share that the mean loss so far would allow."""
    losses = np.append(inside, added)
    excess = (losses.mean() if len(losses) else 1.0) - old
    return 1.0 if excess <= tolerated - old else (tolerated - old) / excess


def pooled(inside: Array, added: Array, low: float, old: float, tolerated: float) -> float:
    """Wrong where harmed keys leave: all units vouch for the keys that are added."""
    return fresh_share(np.append(inside, added), old, tolerated)


def first_units(state: State, rows: slice, arm: int | None = None) -> Array:
    """Wrong: of the new system's rows, only those of keys that it had never answered before."""
    mine = KEPT(state, rows, arm)
    returns = (state.rows["known"][mine] & watch.SEEN_BY_NEW) > 0
    return mine[~returns] if arm == NEW else mine


def known_only(state: State, name: str, rows: Array, *more: object, **named: object) -> Array:
    """Wrong: outcomes that are not known are left out, as if they were like the known ones."""
    losses = state.loss(name)[rows] / state.given.limits[name].bound
    return np.where(np.isnan(losses), np.nanmean(losses) if len(losses) else 0.0, losses)


class ArrivalStop(watch.Stop):
    """Wrong: bets on outcomes in the order in which they arrive, and on nothing unknown."""

    def _move(self, state: State, place: int, rows: Array, given: Array, sign: int) -> None:
        losses = np.broadcast_to(given, rows.shape)
        known = ~np.isnan(losses)
        super()._move(state, place, rows[known], losses[known], sign)


def first_step_only(self: watch.Stop, place: int, end: int) -> float:
    """Too slow: one capital since the first step, without restarts."""
    total = self.sums[:end, place, : watch.FINISH].sum(axis=(0, 1))
    return float(np.logaddexp.reduce(total) - np.log(len(total)))


def largest_reached(self: watch.Stop, state: State) -> bool:
    """Wrong: the largest share with old rows is taken for evidence that nothing is worse."""
    return bool(state.share >= decide_share.LARGEST_RELATIVE)


KEPT = State.kept
RULES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "": nullcontext,
    "but harm brings keys back": nullcontext,  # an assumption of the promise
    "plug-in share": lambda: patch.object(decide_share, "sticky_share", plug_in),
    "first units only": lambda: patch.object(State, "kept", first_units),
    "one pooled sample": lambda: patch.object(decide_share, "sticky_share", pooled),
    "unknown left out": lambda: patch.object(decide_share, "scaled", known_only),
    "order of arrival": lambda: patch("tether.runs.state.Stop", ArrivalStop),
    "no restarts": lambda: patch.object(watch.Stop, "_log_wealth", first_step_only),
    "share 1 without a finish": lambda: patch.object(watch.Stop, "is_finished", largest_reached),
}

# ---- cases ------------------------------------------------------------------------------------

FEW = World("40 visitors, new 0.3", 0.3, visitors=40, growth=UNLIMITED, steps=6)
LATE = World("0.25, harmless outcomes known sooner", 0.25, late=(0.9, 0.1))
REGULARS = World("900 regulars, 15 % harmed", 0.0, regulars=900, harmed=0.15, visitors=100)
LEAVE = replace(REGULARS, name="80 % harmed, who leave", harmed=0.8, leave=True, growth=UNLIMITED)
RELATIVE = World("relative, 0.04 against 0.02", 0.04, guardrail=relative(0.01), visitors=400)
RELATIVE = replace(RELATIVE, steps=40, sticky=False)
SLOW = World("false halts, harmless late", 0.08, visitors=1000, steps=4, calls=10, late=(0.0, 1.0))
TURNS = World("failures after step 10 turns bad", 0.03, turns_bad=10, steps=14, calls=10)


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
        name = ", ".join(("release", world.name, *[rule] * bool(rule)))
        return Case(name, partial(measure, world, rule), limit, bool(rule), runs)

    for new_risk in (0.05, 0.2, 1.0):
        yield case(risks, World(f"visitors, new {new_risk:g}", new_risk), "", 0.1, 60)
    yield case(risks, FEW, "", 0.1, 120)
    yield case(risks, FEW, "plug-in share", 0.1, 120)
    yield case(risks, LATE, "", 0.1, 60)
    yield case(risks, LATE, "unknown left out", 0.1, 20)
    yield case(risks, REGULARS, "", 0.1, 30)
    yield case(risks, REGULARS, "first units only", 0.1, 15)
    often = replace(REGULARS, name="regulars, harmed come 3 times as often", present=1 / 3)
    yield case(risks, often, "", 0.1, 30)
    often = replace(often, name="regulars, a third come", harmed=0.2, retry=True)
    yield case(risks, often, "but harm brings keys back", 0.1, 30)
    yield case(risks, LEAVE, "", 0.1, 40)
    yield case(risks, LEAVE, "one pooled sample", 0.1, 25)
    yield case(risks, RELATIVE, "", 0.01, 40)
    yield case(risks, RELATIVE, "share 1 without a finish", 0.01, 25)
    sticky = replace(RELATIVE, name="relative, keys stay", sticky=True)
    yield case(risks, sticky, "", 0.01, 40)
    yield case(risks, replace(sticky, name="relative, both drift up", drift=0.005), "", 0.01, 40)
    for new_risk in (0.08, 0.1):
        good = World(f"false halts at {new_risk:g} of 0.1", new_risk, calls=10)
        yield case(halts, good, "", 0.05, 80)
    yield case(halts, SLOW, "", 0.05, 40)
    yield case(halts, SLOW, "order of arrival", 0.05, 40)
    yield case(cost, TURNS, "", 90, 20)
    yield case(cost, TURNS, "no restarts", 90, 20)


def main(runs: int) -> None:
    """What the stop costs and prevents by version, and what the limit on growth does."""
    print(f"{runs} releases each, 12 steps of 1,000 keys, tolerated 0.05, the old system at 0.01")
    base = World("", 0.05, 0.05, 0.01, visitors=1000, steps=12)
    for factor, calls in product((2.0, 3.0, 6.0, 0.4, 0.8, 1.0), (50, 1)):
        world = replace(base, new_risk=0.05 * factor, calls=calls)
        found = [simulate(world, np.random.default_rng(k), stop=0.05) for k in range(runs)]
        failed = np.array([each.failures.sum() for each in found])
        halted = np.mean([each.halted is not None for each in found])
        print(
            f"  {factor:g} times tolerated, {calls:2} calls a step: halted {halted:6.1%}, failures "
            f"{failed.mean():6.1f} ± {failed.std() / runs**0.5:.1f}",
            flush=True,
        )
    for growth in (3.0, UNLIMITED):
        world, rng = replace(base, new_risk=0.1, growth=growth), np.random.default_rng(1)
        found = [simulate(world, rng) for _ in range(4 * runs)]
        failed = np.mean([each.failures.sum() for each in found])
        lost = np.mean([each.lost > 1.5 for each in found])  # 1.5 times what is tolerated
        print(f"  no stop, 2 times, growth {growth:g}: failures {failed:.1f}, bad steps {lost:.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
