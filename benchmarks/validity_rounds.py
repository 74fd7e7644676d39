"""Complete runs through the controller and its store: the risk of every round beside alpha.

Contexts come, actions cost, and an optimizer learns from the training rows what pays, which is also
what harms. Expected losses are sums over tables. Without tether, where 0.99 is tolerated, the same
optimizer has to break alpha. Ramps are of policies that only draw: a greedy one, one that learned
to avoid harm, and one that harms on purpose; taking losses that are not reported for none has to
break alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import tether
from benchmarks.cases import Case
from tether.runs import Controller
from tether.runs.decide_share import scaled

Array = np.ndarray
ROUNDS, ROWS = 6, 150


class Treatments:
    """Twelve kinds of patients and five treatments: a stronger treatment helps and harms more."""

    name, alpha = "contexts, five actions", 0.12

    def __init__(self, contexts: int = 12, actions: int = 5) -> None:
        rng, strength = np.random.default_rng(5), np.linspace(-1, 1, actions)
        self.gain = strength + 0.5 * rng.normal(size=(contexts, actions))
        self.harm = 1 / (1 + np.exp(2.8 - 2 * self.gain))
        self.safe = tether.Categorical.from_logits(np.tile(-2.5 * strength, (contexts, 1)))
        self._log_safe = self.safe.log_prob_all(np.arange(contexts))

    def arrive(self, rows: int, rng: np.random.Generator) -> Array:
        return rng.integers(len(self.gain), size=rows)

    def outcome(self, contexts: Array, actions: Array, rng: np.random.Generator) -> tuple:
        loss = rng.random(len(actions)) < self.harm[contexts, actions]
        return loss * 1.0, self.gain[contexts, actions] + rng.normal(size=len(actions))

    def improve(self, contexts: Array, actions: Array, reward: Array) -> Any:
        """Mean rewards of each treatment in each kind, held back where there are few rows."""
        total, count = np.zeros_like(self.gain), np.full(self.gain.shape, 2.0)
        np.add.at(total, (contexts, actions), reward)
        np.add.at(count, (contexts, actions), 1)
        return tether.Categorical.from_logits(self._log_safe + 4 * total / count)

    def risk(self, policy: Any) -> float:
        density = np.exp(policy.log_prob_all(np.arange(len(self.gain))))
        return float((density * self.harm).sum(axis=1).mean())


class Candidates:
    """A pool of 400 candidates without contexts: what promises most is also what fails."""

    name, alpha = "a pool", 0.2

    def __init__(self, size: int = 400, features: int = 3) -> None:
        rng = np.random.default_rng(8)
        self.features = np.column_stack([np.ones(size), rng.normal(size=(size, features))])
        self.gain = self.features @ [0.0, 1.0, 0.5, -0.3]
        self.fails = 1 / (1 + np.exp(-3 * (self.gain - 2.2)))
        self.safe = tether.Pool.uniform(size)

    def arrive(self, rows: int, rng: np.random.Generator) -> int:
        return rows

    def outcome(self, contexts: Any, actions: Array, rng: np.random.Generator) -> tuple:
        loss = rng.random(len(actions)) < self.fails[actions]
        return loss * 1.0, self.gain[actions] + rng.normal(size=len(actions))

    def improve(self, contexts: Any, actions: Array, reward: Array) -> Any:
        """Ridge regression of the reward on the features; the pool by what it predicts."""
        seen = self.features[actions]
        ridge = seen.T @ seen + np.eye(seen.shape[1])
        return tether.Pool(self.features @ np.linalg.solve(ridge, seen.T @ reward), 0.5)

    def risk(self, policy: Any) -> float:
        return float(np.exp(policy.log_prob_all(1)[0]) @ self.fails)


def rounds(world: Any, asked: dict[str, float], rng: np.random.Generator) -> Array:
    """The risk of what is served in each round."""
    risks, optimized = [], None
    seed = int(rng.integers(1 << 31))
    with Controller(world.safe, "sqlite://", seed=seed, **asked) as run:
        for _ in range(ROUNDS):
            begun = run.begin(optimized)
            taken = begun.act(world.arrive(ROWS, rng), rng)
            losses, rewards = world.outcome(taken.contexts, taken.actions, rng)
            run.observe(taken.ids, losses, rewards=rewards)
            if run.history().alarm:  # the stop must not lend calibration a hand
                run.resume("go on", actor="benchmark")
            risks.append(world.risk(begun.policy))
            rows = run.training_rows()
            optimized = world.improve(rows.contexts, rows.actions, rows.reward)
    return np.array(risks)


# ---- ramps ------------------------------------------------------------------------------------

KINDS, ACTIONS, RAMP_ALPHA = 6, 4, 0.3


class TablePolicy:
    """Takes an action for each kind of context, or any of them at random; it only draws."""

    def __init__(self, table: Array | None = None) -> None:
        self.table = table

    def sample(self, contexts: Array, rng: np.random.Generator) -> Array:
        if self.table is None:
            return rng.integers(ACTIONS, size=len(contexts))
        return self.table[np.asarray(contexts)[:, 0]]

    def risk(self, harm: Array) -> float:
        if self.table is None:
            return float(harm.mean())
        return float(harm[range(len(harm)), self.table].mean())


def ramped(kind: str, late: tuple[float, float], rng: np.random.Generator) -> Array:
    """The risk of every step of two policies that are ramped one after the other."""
    shape, steps, risks = (KINDS, ACTIONS), 4, []
    harm = np.where(rng.random(shape) < 0.3, 0.3 + 0.7 * rng.random(shape), 0.0)
    harm = np.minimum(harm * 0.5 * RAMP_ALPHA / max(float(harm.mean()), 0.05), 1.0)
    pay = rng.random(shape) + 2 * harm  # what harms pays more
    safe = TablePolicy()
    with Controller(safe, "sqlite://", alpha=RAMP_ALPHA, family="ramp(40)", stop=None) as run:

        def act(count: int) -> None:
            contexts = rng.integers(KINDS, size=(count, 1))
            taken = run.round.act(contexts, rng)
            lost = rng.random(count) < harm[contexts[:, 0], taken.actions]
            known = rng.random(count) >= np.where(lost, *late)
            rewards = pay[contexts[:, 0], taken.actions]
            if known.any():
                run.observe(taken.ids[known], lost[known] * 1.0, rewards=rewards[known])

        run.begin()
        act(80)
        for _ in range(2):
            made = _made(kind, harm, pay, run.training_rows())
            run.begin(made)
            for _ in range(steps):
                share = run.round.share
                risks.append((1 - share) * safe.risk(harm) + share * made.risk(harm))
                act(40)
    return np.array(risks)


def _made(kind: str, harm: Array, pay: Array, rows: Any) -> TablePolicy:
    if kind == "harmful":
        return TablePolicy(harm.argmax(axis=1))
    if kind == "greedy":
        return TablePolicy(pay.argmax(axis=1))
    seen, lost = np.zeros(harm.shape), np.zeros(harm.shape)
    np.add.at(seen, (rows.contexts[:, 0], rows.actions), 1)
    np.add.at(lost, (rows.contexts[:, 0], rows.actions), rows.loss)
    looks = lost / np.maximum(seen, 1)  # what was never tried looks harmless
    return TablePolicy(np.where(looks <= RAMP_ALPHA / 2, pay, -looks).argmax(axis=1))


def unreported(late: Callable[..., Array], rng: np.random.Generator) -> Array:
    """Wrong: losses that are not known count as 0."""

    def none(*given: Any, unknown: float) -> Array:
        return scaled(*given, unknown=0.0)

    with patch("tether.runs.decide_ramp.scaled", none):
        return late(rng)


def cases() -> Iterator[Case]:
    """Every case."""
    for world in (Treatments(), Candidates()):
        for rule in ("alpha", "promise"):
            each = partial(rounds, world, {rule: world.alpha})
            yield Case(f"rounds, {world.name}, {rule}", each, world.alpha, runs=40)
        free = partial(rounds, world, {"alpha": 0.99})
        yield Case(f"rounds, {world.name}, without tether", free, world.alpha, True, runs=40)
    for kind in ("greedy", "harmful", "learned"):
        each = partial(ramped, kind, (0.0, 0.0))
        yield Case(f"ramp of policies, {kind}", each, RAMP_ALPHA, runs=60)
    for kind in ("learned", "harmful"):
        late = partial(ramped, kind, (0.9, 0.1))
        name = f"ramp of policies, {kind}, harm is not reported"
        yield Case(name, late, RAMP_ALPHA, runs=60)
    name += ", and taken for none"
    yield Case(name, partial(unreported, late), RAMP_ALPHA, True, runs=60)
