"""Releases through the class and its store: what is served in every step, and when they stop.

A world has keys that come in a step and the risk of each under both systems, so the expected loss
of what is served is known. Each right rule is the package as it is; a wrong one is the package with
one function exchanged: a plug-in share, a key's first unit alone, one pooled sample of keys that
return, unknown outcomes left out, bets in the order of arrival, no restarts, a share of 1 without a
finish, or after one that is about new keys alone. Tables that need many releases are made with the
rules alone, which a test compares with the class. `make validity` runs the cases;
`python -m benchmarks.validity --room releases` these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.cases import Case
from tether.runs import Release, decide_share, relative, watch
from tether.runs.keys import NEW, is_below
from tether.runs.shares import (
    Guardrail,
    fresh_share,
    grown,
    relative_share,
    relative_sticky_share,
)
from tether.runs.state import State
from tether.runs.watch import FEWEST_FAILURES, SEEN_BY_NEW, STAKES, log_factors, log_wealth

Array = np.ndarray
UNLIMITED = 1e5
"""A growth that limits nothing."""
LIMIT = np.log(1 / 0.05)
"""Where the stop and the finish are, for an error of 0.05."""


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
    old_rows: int = 2000
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
    halted: bool


class Stored:
    """A release of the package, with its store."""

    def __init__(self, limit: Guardrail, old: Array | None, rng: np.random.Generator, **how: Any):
        log = None if old is None else {"loss": old}
        self.release = Release("sqlite://", {"loss": limit}, old=log, **how)
        self.advance = self.release.advance

    @property
    def share(self) -> float:
        return self.release.share

    def assign(self, keys: Array) -> Array:
        """Whether the new system answers each key."""
        return np.array(self.release.assign(keys.tolist())) == "new"

    def observe(self, keys: Array, new: Array, lost: Array) -> None:
        """What came of keys that were assigned."""
        who = np.where(new, "new", "old").tolist()
        self.release.observe(keys.tolist(), {"loss": lost}, system=who)

    def close(self) -> None:
        self.release.close()


class Pure:
    """The rules of a release alone, without a store: the same shares and stops, and far faster.

    A call's outcomes are all known before the next call. `hashed` gives the position of each key.
    """

    def __init__(
        self,
        limit: Guardrail,
        old: Array | float | None,
        rng: np.random.Generator,
        *,
        stop: float | None = 0.05,
        growth: float = 3.0,
        sticky: bool = True,
        hashed: Callable[[Array], Array] | None = None,
    ) -> None:
        self.limit, self.stop, self.growth, self.sticky = limit, stop, growth, sticky
        self.old = old or 0.0 if old is None or isinstance(old, float) else _plus(old)
        self.hashed = hashed or (lambda keys: rng.integers(2**64, size=len(keys), dtype=np.uint64))
        self.seen, self.places = np.zeros(0, int), np.zeros(0, np.uint64)  # of every key so far
        self.sums: list[Array] = []  # of each step, over by now: stakes
        self.levels, self.failed, self.halted, self.finished = [0.0], 0, False, False
        self.finish: list[Array] = []
        self._begin(self._share(0.0, np.zeros(0, np.uint64), np.zeros(0, bool), np.zeros(0)))

    @property
    def share(self) -> float:
        return 0.0 if self.halted else self.levels[-1]

    def assign(self, keys: Array) -> Array:
        """Whether the new system answers each key."""
        missing = np.arange(len(self.seen), keys.max(initial=-1) + 1)
        self.seen = np.append(self.seen, np.zeros(len(missing), int))
        self.places = np.append(self.places, self.hashed(missing))
        if not self.sticky:
            self.places[keys] = self.hashed(keys)
        return is_below(self.places[keys], self.share)

    def observe(self, keys: Array, new: Array, lost: Array) -> None:
        """What came of all keys of a call."""
        known = (self.seen[keys] > 0) & self.sticky
        self.rows.append((self.places[keys], new, lost, known))
        returns, failing = self.seen[keys] >= SEEN_BY_NEW, new & (lost > 0)
        if self.limit.is_relative:
            self.fresh += self._relative(lost[~known], new[~known], self.levels[-1])
        else:
            self.fresh += log_factors(lost[new & ~returns], self.limit.tolerated or 0.0)
            self.returning += log_factors(lost[new & returns], self.limit.tolerated or 0.0)
        self.seen[keys] |= np.where(new, SEEN_BY_NEW, 1)
        self.failed += int(failing.sum())
        if failing.any() or self.limit.is_relative:
            self._judge(self.fresh)

    def advance(self) -> None:
        """The next step."""
        place, new, lost, known = (np.concatenate(each) for each in zip(*self.rows, strict=True))
        if self.limit.is_relative:
            part = new[known].mean() if known.any() else 0.0
            self.returning = self._relative(lost[known], new[known], part)
            coin = np.where(known, part, self.levels[-1])
            self.finish.append(self._relative(lost, new, coin, finish=True))
        self._judge(self.fresh + self.returning)
        self.sums.append(self.fresh + self.returning)
        low = min(self.levels[-2:]) if self.sticky else 0.0
        share = self._share(low, place, new, lost)
        if self.limit.is_relative:
            self.finished |= log_wealth(np.array(self.finish)) >= LIMIT
            share = 1.0 if self.finished else min(share, decide_share.LARGEST_RELATIVE)
        self._begin(grown(share, self.levels[-1], self.growth))

    def close(self) -> None:
        """Nothing is held."""

    def _begin(self, share: float) -> None:
        self.levels.append(share)
        self.rows: list[tuple[Array, ...]] = []
        self.fresh, self.returning = np.zeros((2, len(STAKES)))

    def _share(self, low: float, place: Array, new: Array, lost: Array) -> float:
        within = is_below(place[new], low)
        inside, added, limit = lost[new][within], lost[new][~within], self.limit
        if limit.is_relative:
            half = (place[~new] & np.uint64(1) == 0) & (low > 0)
            pairs = (inside, lost[~new][half]), (added, lost[~new][~half])
            both = (relative_share(*each, limit.delta, limit.ratio) for each in pairs)
            return relative_sticky_share(*both, low)
        return decide_share.sticky_share(inside, added, low, self.old, limit.tolerated or 0.0)

    def _relative(self, lost: Array, new: Array, coin: Any, **how: bool) -> Array:
        return watch.relative_log_factors(
            lost, new, coin, self.limit.delta, self.limit.ratio, **how
        )

    def _judge(self, now: Array) -> None:
        if self.stop is not None and self.failed >= FEWEST_FAILURES:
            self.halted |= log_wealth(np.array([*self.sums, now])) >= LIMIT


def _plus(losses: Array) -> float:
    return float((losses.sum() + 1) / (len(losses) + 1))


def simulate(
    world: World,
    rng: np.random.Generator,
    *,
    stop: float | None = None,
    rules: Rules = Stored,
) -> Run:
    """One release."""
    limit = world.guardrail or Guardrail(world.tolerated)
    old = None if limit.is_relative else (rng.random(world.old_rows) < world.old_risk) * 1.0
    harmed = rng.permutation(world.regulars) < world.harmed * world.regulars
    met = np.zeros(world.regulars, bool)
    found, waiting, halted = [], [], False
    options = {"stop": stop, "growth": world.growth, "sticky": world.sticky}
    with closing(rules(limit, old, rng, **options)) as release:
        for step in range(1, world.steps + 1):
            while waiting:
                release.observe(*waiting.pop())
            chance = np.where(met if world.retry else harmed, 1.0, world.present)
            chance[met & world.leave] = 0.0
            regulars = np.flatnonzero(rng.random(world.regulars) < chance)
            visitors = world.regulars + step * world.visitors + np.arange(world.visitors)
            keys = rng.permutation(np.append(regulars, visitors))
            bad = world.turns_bad is not None and step >= world.turns_bad
            level, returns = world.drift * (step - 1), keys < world.regulars
            risk = np.full(len(keys), world.new_risk * (10 if bad else 1))
            risk[returns] = harmed[keys[returns]]
            risk, old_risk = np.minimum(risk + level, 1.0), min(world.old_risk + level, 1.0)
            new, lost = np.zeros(len(keys), bool), np.zeros(len(keys))
            for call in np.array_split(np.arange(len(keys)), world.calls):
                new[call] = release.assign(keys[call])
                lost[call] = rng.random(len(call)) < np.where(new[call], risk[call], old_risk)
                later = rng.random(len(call)) < np.where(lost[call] > 0, *world.late)
                for part in (call[~later], call[later]):
                    waiting.append((keys[part], new[part], lost[part]))
                release.observe(*waiting.pop(-2))
                halted = stop is not None and (lost * new)[call].any() and release.share == 0
                if halted:
                    break
            served = np.where(new, risk, old_risk).mean()
            lost_part = lost.sum() / (world.tolerated * len(keys))
            found.append((served, served - old_risk, lost[new].sum(), lost_part))
            went = keys[new & returns]
            met[went] = harmed[went]
            release.advance()  # keys that return are judged now
            halted = stop is not None and release.share == 0
            if halted:
                break
    return Run(*np.array(found).T, halted)


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


def of_known(
    self: watch.Stop, state: State, bet: watch.Bet, rows: Array, losses: Array, **how: bool
) -> Array:
    """Wrong: bets on outcomes in the order in which they arrive, and on nothing unknown."""
    known = ~np.isnan(losses)
    return FACTORS(self, state, bet, rows[known], losses[known], **how)


def first_step_only(self: watch.Stop, place: int, end: int) -> float:
    """Too slow: one capital since the first step, without restarts."""
    total = self.sums[:end, place].sum(axis=0)
    return float(np.logaddexp.reduce(total) - np.log(len(total)))


def of_new_keys(self: watch.Stop, state: State, number: int) -> Array:
    """Wrong: the finish is shown by keys that are new, though others are served as well."""
    rows = state.kept(state.of_unit(number))
    return rows[state.rows["known"][rows] == 0]


def largest_reached(self: watch.Stop, state: State) -> bool:
    """Wrong: the largest share with old rows is taken for evidence that nothing is worse."""
    return bool(state.share >= decide_share.LARGEST_RELATIVE)


KEPT, FACTORS = State.kept, watch.Stop._factors
Rules = type[Stored | Pure]
RULES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "": nullcontext,
    "but harm brings keys back": nullcontext,  # three assumptions that are needed
    "but 100 old rows at 0.095": nullcontext,
    "but few keys, who always fail": nullcontext,
    "plug-in share": lambda: patch.object(decide_share, "sticky_share", plug_in),
    "no limit on growth": nullcontext,  # the world has none
    "first units only": lambda: patch.object(State, "kept", first_units),
    "one pooled sample": lambda: patch.object(decide_share, "sticky_share", pooled),
    "unknown left out": lambda: patch.object(decide_share, "scaled", known_only),
    "order of arrival": lambda: patch.object(watch.Stop, "_factors", of_known),
    "no restarts": lambda: patch.object(watch.Stop, "_log_wealth", first_step_only),
    "finish by new keys": lambda: patch.object(watch.Stop, "_rows_of", of_new_keys),
    "share 1 without a finish": lambda: patch.object(watch.Stop, "is_finished", largest_reached),
}

# ---- cases ------------------------------------------------------------------------------------

FEW = World("40 visitors, new 0.3", 0.3, visitors=40, growth=UNLIMITED, steps=6)
LATE = World("0.25, harmless outcomes known sooner", 0.25, late=(0.9, 0.1))
REGULARS = World("900 regulars, 15 % harmed", 0.0, regulars=900, harmed=0.15, visitors=100)
OFTEN = replace(REGULARS, name="regulars, harmed come 3 times as often", present=1 / 3)
RETRY = replace(OFTEN, name="regulars, a third come", harmed=0.2, retry=True)
LEAVE = replace(REGULARS, name="80 % harmed, who leave", harmed=0.8, leave=True, growth=UNLIMITED)
NEAR = World("an old system near what is tolerated", 1.0, old_risk=0.095, old_rows=100, steps=4)
RELATIVE = World("relative, 0.04 against 0.02", 0.04, guardrail=relative(0.01), visitors=400)
RELATIVE = replace(RELATIVE, steps=40, sticky=False)
STAY = replace(RELATIVE, name="relative, keys stay", sticky=True)
APART = replace(REGULARS, name="relative, 15 % of regulars harmed", old_risk=0.1, steps=40)
APART = replace(APART, guardrail=relative(0.01))
GONE = replace(LEAVE, name="relative, 80 % harmed, who leave", guardrail=relative(0.05), steps=30)
SLOW = World("false halts, harmless late", 0.08, visitors=1000, steps=4, calls=10, late=(0.0, 1.0))
SAME = replace(REGULARS, name="false halts, 8 % harmed", visitors=0, harmed=0.08, old_risk=0.08)
SAME = replace(SAME, steps=20)
TABLE = World("", 0.05, 0.05, 0.01, visitors=1000, steps=12, calls=50)
TURNS = World("failures after step 10 turns bad", 0.03, turns_bad=10, steps=14, calls=10)


def risks(world: World, rule: str, rules: Rules, rng: np.random.Generator) -> Array:
    """What is served in every step, without the stop: the share rule alone."""
    with RULES[rule]():
        run = simulate(world, rng, rules=rules)
    return run.over_old if world.guardrail is not None else run.served


def halts(world: World, rule: str, rules: Rules, rng: np.random.Generator) -> float:
    """Whether a version within its guardrail is stopped."""
    with RULES[rule]():
        return simulate(world, rng, stop=0.05, rules=rules).halted


def cost(world: World, rule: str, rules: Rules, rng: np.random.Generator) -> float:
    """Failures of the new system until the halt, or in all steps; from the step it turns bad."""
    with RULES[rule]():
        run = simulate(world, rng, stop=0.05, rules=rules)
    return float(run.failures[(world.turns_bad or 1) - 1 :].sum())


def bad_steps(world: World, rule: str, rules: Rules, rng: np.random.Generator) -> float:
    """Whether both systems lost more than 1.5 times what is tolerated in some step."""
    return bool((simulate(world, rng, stop=0.05, rules=rules).lost > 1.5).any())


def cases() -> Iterator[Case]:
    """Every rule where it holds, and the wrong ones where they break."""
    for measure, world, rule, limit, stored, alone in worlds():
        for rules, runs in ((Stored, stored), (Pure, alone)):
            if runs:
                told = ["rules alone"] * (rules is Pure) + [rule] * bool(rule)
                name = ", ".join(("release", world.name, *told))
                yield Case(name, partial(measure, world, rule, rules), limit, bool(rule), runs)


def worlds() -> Iterator[tuple[Callable[..., Any], World, str, float, int, int]]:
    """What is measured where, with which rule, its limit, and repeats of both kinds."""
    for new_risk in (0.05, 0.2, 1.0):
        yield risks, World(f"visitors, new {new_risk:g}", new_risk), "", 0.1, 60, 0
    yield risks, FEW, "", 0.1, 120, 4000
    yield risks, FEW, "plug-in share", 0.1, 120, 4000
    yield risks, LATE, "", 0.1, 60, 0
    yield risks, LATE, "unknown left out", 0.1, 20, 0
    yield risks, REGULARS, "", 0.1, 30, 1000
    yield risks, REGULARS, "first units only", 0.1, 60, 0
    yield risks, OFTEN, "", 0.1, 30, 1000
    yield risks, RETRY, "but harm brings keys back", 0.1, 30, 1000
    yield risks, LEAVE, "", 0.1, 40, 1000
    yield risks, LEAVE, "one pooled sample", 0.1, 25, 1000
    yield risks, NEAR, "but 100 old rows at 0.095", 0.1, 0, 4000
    yield risks, RELATIVE, "", 0.01, 40, 0
    yield risks, RELATIVE, "share 1 without a finish", 0.01, 25, 0
    yield risks, STAY, "", 0.01, 40, 0
    yield risks, replace(STAY, name="relative, both drift up", drift=0.005), "", 0.01, 40, 0
    yield risks, APART, "", 0.01, 10, 200
    yield risks, APART, "finish by new keys", 0.01, 10, 0
    yield risks, replace(GONE, old_risk=0.1, growth=3.0), "", 0.05, 0, 300
    for new_risk in (0.08, 0.1):
        good = World(f"false halts at {new_risk:g} of 0.1", new_risk, calls=10)
        yield halts, good, "", 0.05, 80, 0
    yield halts, SLOW, "", 0.05, 40, 0
    yield halts, SLOW, "order of arrival", 0.05, 40, 0
    yield halts, SAME, "", 0.05, 0, 400
    few = replace(SAME, regulars=200)
    yield halts, few, "but few keys, who always fail", 0.05, 0, 400
    yield cost, TURNS, "", 90, 20, 0
    yield cost, TURNS, "no restarts", 90, 20, 0
    for factor, most in ((2.0, 30), (3.0, 14), (6.0, 7)):
        bad = replace(TABLE, name=f"failures at {factor:g} times 0.05", new_risk=0.05 * factor)
        yield cost, bad, "", most, 30, 1000
        at_once = replace(bad, name=f"{bad.name}, a step in one call", calls=1)
        yield cost, at_once, "", 3 * most, 0, 1000
    for factor in (0.4, 0.8, 1.0):
        good = replace(TABLE, name=f"false halts at {factor:g} times 0.05", new_risk=0.05 * factor)
        yield halts, good, "", 0.05, 0, 1000
    grows = replace(TABLE, name="a step above 1.5 times 0.05 at 2 times", new_risk=0.1, calls=1)
    yield bad_steps, grows, "", 0.02, 0, 2000
    yield bad_steps, replace(grows, growth=UNLIMITED), "no limit on growth", 0.02, 0, 1000
