"""Worlds in which `tether.Release` is driven step by step on a store in memory.

Every world knows the expected loss of each key under each system, so the risk of what is served is
known and need not be estimated from losses.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import tether
from tether.release import ArmCounts

Loss = dict[str, float]
"""Mean losses by guardrail."""
Delay = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""From the losses of rows to the number of steps until they are reported; `NEVER` if they are not.
"""
NEVER = 10**6
BETA_ROWS = 4.0
"""How far losses of a bound other than 1 scatter: those of a beta distribution of so many rows."""


@dataclass(frozen=True)
class Segment:
    """A part of the keys: what the new system does to them, and how many requests they make."""

    part: float
    new: Loss
    new_later: Loss | None = None
    requests: int = 1


@dataclass(frozen=True)
class StoreWorld:
    """Two systems, the keys of each step, and how losses are reported.

    With a `population` the same keys come back, each in a step with the probability `present`;
    otherwise all keys are new. `changes_at` is the step from which the new system has its later
    losses. With `resumes` an operator clears every alarm before the next batch of keys.
    """

    name: str
    segments: tuple[Segment, ...]
    guardrails: dict[str, Any] = field(default_factory=lambda: {"harm": 0.1})
    old: Loss = field(default_factory=lambda: {"harm": 0.05})
    keys: int = 200
    steps: int = 6
    old_rows: int = 400
    has_log: bool = True
    batches: int = 1
    population: int = 0
    present: float = 1.0
    delay: Delay | None = None
    changes_at: int | None = None
    resumes: bool = False
    runs: float = 1.0
    """How many releases there are, compared with the other worlds."""
    reaches: dict[int, float] = field(default_factory=dict)
    """The mean share that a step must have at least."""
    options: dict[str, Any] = field(default_factory=dict)

    def limit(self, name: str) -> tuple[float, float]:
        """Alpha and the bound of a guardrail."""
        given = self.guardrails[name]
        return given if isinstance(given, tuple) else (given, 1.0)

    def of_promise(self) -> StoreWorld:
        """The same world with the exact share."""
        return replace(
            self, name=f"{self.name}, promise", options={**self.options, "promise": True}
        )

    def mean_of_new(self, name: str, step: int) -> np.ndarray:
        """The expected loss under the new system, for each segment."""
        later = self.changes_at is not None and step >= self.changes_at
        chosen = [
            each.new_later if later and each.new_later else each.new for each in self.segments
        ]
        return np.array([each[name] for each in chosen])

    def draw(self, name: str, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Losses with these means: 0 or 1, or for another bound between 0 and the bound."""
        bound = self.limit(name)[1]
        if bound == 1.0:
            return (rng.random(len(mean)) < mean).astype(float)
        a = BETA_ROWS * mean / bound
        return bound * rng.beta(a, BETA_ROWS - a)

    def log(self, rng: np.random.Generator) -> dict[str, ArmCounts]:
        """The old system's rows from before the release."""
        means = {name: np.full(self.old_rows, self.old[name]) for name in self.guardrails}
        totals = {name: float(self.draw(name, each, rng).sum()) for name, each in means.items()}
        return {name: ArmCounts(self.old_rows, total) for name, total in totals.items()}


@dataclass
class Played:
    """What a release did: by step, the risk of each guardrail, the share, and the window."""

    risks: np.ndarray
    shares: np.ndarray
    windows: np.ndarray
    alarms: int


class Player:
    """Drives one release through a world."""

    def __init__(self, world: StoreWorld, seed: int) -> None:
        self.world, self.rng = world, np.random.default_rng([seed, 7])
        self.release = tether.Release(
            "sqlite://",
            world.guardrails,
            old=world.log(self.rng) if world.has_log else None,
            max_silence=None,
            salt=f"release {seed}".encode(),
            **world.options,
        )
        parts = np.array([each.part for each in world.segments])
        count = world.population or world.keys * world.steps
        self.segment = self.rng.choice(len(parts), count, p=parts / parts.sum())
        self.requests = np.array([each.requests for each in world.segments])
        self.has_row = np.zeros((2, count), bool)
        self.due: dict[int, list[tuple[np.ndarray, bool, Loss]]] = defaultdict(list)
        self.alarms = 0

    def play(self) -> Played:
        """All steps."""
        world, found = self.world, []
        ends_by_itself = "keys_per_step" in world.options
        with self.release as release:
            for step in range(1, world.steps + 1):
                if step > 1 and not ends_by_itself:
                    release.advance()
                keys = self._keys(step)
                expected = [self._serve(step, part) for part in np.array_split(keys, world.batches)]
                begun = release.step
                new = next(iter(begun.ramp_share.guardrails.values())).new.rows
                risks = np.concatenate(expected, axis=1).mean(axis=1)
                found.append((risks, begun.share, new))
                self._report(step)
        risks, shares, windows = zip(*found, strict=True)
        return Played(np.array(risks), np.array(shares), np.array(windows), self.alarms)

    def _keys(self, step: int) -> np.ndarray:
        """The keys of a step, in the order in which they come."""
        world = self.world
        if not world.population:
            return np.arange((step - 1) * world.keys, step * world.keys)
        everyone = self.rng.permutation(world.population)
        return everyone[self.rng.random(world.population) < world.present]

    def _serve(self, step: int, keys: np.ndarray) -> np.ndarray:
        """Assign keys, as often as they make requests; the expected losses of what is served."""
        world, rng = self.world, self.rng
        if world.resumes and self.release.share == 0 and self._has_alarm():
            self.alarms += 1
            self.release.resume("looked into it", actor="the operator")
        asked = keys
        if self.requests.max() > 1:
            asked = rng.permutation(np.repeat(keys, self.requests[self.segment[keys]]))
        answers = dict(zip(asked.tolist(), self.release.assign(asked.tolist()), strict=True))
        by_new = np.array([answers[key] == "new" for key in keys.tolist()])
        segment = self.segment[keys]
        means = {
            name: np.where(by_new, world.mean_of_new(name, step)[segment], world.old[name])
            for name in world.guardrails
        }
        for is_new in (False, True):
            fresh = (by_new == is_new) & ~self.has_row[int(is_new), keys]
            self.has_row[int(is_new), keys[fresh]] = True
            self._happen(step, keys[fresh], is_new, {n: m[fresh] for n, m in means.items()})
        self._report(step)
        return np.stack(list(means.values()))

    def _has_alarm(self) -> bool:
        return self.release.history().alarm is not None

    def _happen(
        self, step: int, keys: np.ndarray, is_new: bool, means: dict[str, np.ndarray]
    ) -> None:
        """The losses of rows, to be reported in this step or later."""
        losses = {name: self.world.draw(name, mean, self.rng) for name, mean in means.items()}
        first = next(iter(losses.values()))
        late = np.zeros(len(keys), int)
        if self.world.delay is not None and len(keys):
            late = self.world.delay(first, self.rng)
        for each in np.unique(late).tolist():
            if each != NEVER:
                some = late == each
                named = {name: values[some] for name, values in losses.items()}
                self.due[step + each].append((keys[some], is_new, named))

    def _report(self, step: int) -> None:
        """Observe what is due, in one call if no key has moved."""
        due = self.due.pop(step, [])
        keys = [key for each, _, _ in due for key in each.tolist()]
        for some in [due] if len(set(keys)) == len(keys) else [[each] for each in due]:
            keys = [key for each, _, _ in some for key in each.tolist()]
            systems = [("old", "new")[is_new] for each, is_new, _ in some for _ in each]
            losses = {
                name: np.concatenate([named[name] for _, _, named in some])
                for name in self.world.guardrails
                if some
            }
            if keys:
                self.release.observe(keys, losses, system=systems)


def late(mean_of_loss: float, of_zero: float) -> Delay:
    """A loss comes after a geometric number of steps, harm later than no harm."""

    def delay(losses: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        at_once = 1 / (1 + np.where(losses > 0, mean_of_loss, of_zero))
        return rng.geometric(at_once) - 1

    return delay


def missing(of_loss: float, of_zero: float) -> Delay:
    """A loss never comes with a probability that may depend on it."""

    def delay(losses: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        never = rng.random(len(losses)) < np.where(losses > 0, of_loss, of_zero)
        return np.where(never, NEVER, 0)

    return delay
