"""Worlds with known losses, for runs of policies: a safe policy, better ones, contexts, losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import tether


def _table(strength: float) -> Callable[[Any], Any]:
    def log_probabilities(contexts: Any) -> Any:
        x = np.asarray(contexts, dtype=float)
        logits = np.stack(
            [0 * x[:, 0], strength * x[:, 0], strength * x[:, 1] + 2 * (strength > 0)], axis=1
        )
        return logits - logsumexp(logits, axis=1, keepdims=True)

    return log_probabilities


class Line:
    """A Gaussian policy whose mean is linear in the context: actions cannot be listed."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def _mean(self, contexts: Any) -> Any:
        return self.slope * (0.3 + 0.3 * np.asarray(contexts, dtype=float)[:, 0])

    def sample(self, contexts: Any, rng: np.random.Generator) -> Any:
        return rng.normal(self._mean(contexts))

    def log_prob(self, contexts: Any, actions: Any) -> Any:
        return -((actions - self._mean(contexts)) ** 2) / 2 - np.log(2 * np.pi) / 2


class Words:
    """Picks one of a few words by a function of the prompt's length."""

    actions = np.array(["no", "maybe", "yes"])

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def log_prob_all(self, contexts: Any) -> Any:
        size = np.array([len(str(each)) for each in contexts]) / 20
        return _table(self.strength)(np.stack([size, size], axis=1))

    def log_prob(self, contexts: Any, actions: Any) -> Any:
        place = np.searchsorted(np.sort(self.actions), actions)
        return self.log_prob_all(contexts)[np.arange(len(actions)), np.argsort(self.actions)[place]]

    def sample(self, contexts: Any, rng: np.random.Generator) -> Any:
        chances = np.exp(self.log_prob_all(contexts)).cumsum(axis=1)
        return self.actions[(rng.random(len(chances))[:, None] > chances).sum(axis=1).clip(0, 2)]


@dataclass(frozen=True)
class World:
    """Policies, where they act, what it costs, and what is tolerated."""

    safe: Any
    news: Sequence[Any]
    contexts: Callable[[np.random.Generator, int], Any]
    loss: Callable[[Any, np.random.Generator], Any]
    alpha: float


def _beyond(actions: Any, rng: np.random.Generator) -> Any:
    return (np.asarray(actions, dtype=float) > 1.5).astype(float)


def _third(actions: Any, rng: np.random.Generator) -> Any:
    harmful = np.isin(np.asarray(actions).astype(str), ["2", "yes"])
    return (rng.random(len(harmful)) < 0.03 + 0.25 * harmful).astype(float)


def _frame(rng: np.random.Generator, count: int) -> pd.DataFrame:
    kinds = pd.Categorical(rng.choice(["x", "y"], count), categories=["x", "y", "z"])
    plain = pd.DataFrame(rng.normal(size=(count, 2)), columns=["a", "b"])
    return plain.assign(kind=kinds)


def _framed(strength: float) -> Any:
    table = _table(strength)
    return tether.Categorical(lambda x: table(x[["a", "b"]]), np.arange(3))


def _prompts(rng: np.random.Generator, count: int) -> Any:
    return np.array(["why " * int(k) + "?" for k in rng.integers(1, 9, count)])


WORLDS = {
    "nothing": World(
        tether.Gaussian(0.0),
        [tether.Gaussian(0.3), tether.Gaussian(0.4), tether.Gaussian(0.5)],
        lambda rng, count: count,
        _beyond,
        0.12,
    ),
    "arrays": World(
        tether.Categorical(_table(0.0), np.arange(3)),
        [tether.Categorical(_table(k), np.arange(3)) for k in (0.5, 1.0, 1.5)],
        lambda rng, count: rng.normal(size=(count, 2)),
        _third,
        0.25,
    ),
    "frames": World(_framed(0.0), [_framed(0.5), _framed(1.0)], _frame, _third, 0.25),
    "texts": World(Words(0.0), [Words(0.5), Words(1.0)], _prompts, _third, 0.25),
    "lines": World(
        Line(0.0),
        [Line(0.5), Line(1.0)],
        lambda rng, count: rng.normal(size=(count, 1)),
        _beyond,
        0.12,
    ),
    "shortlists": World(
        tether.Shortlist(tether.Gaussian(0.0), size=6),
        [lambda x, candidates: candidates, lambda x, candidates: 2 * candidates],
        lambda rng, count: rng.normal(size=(count, 1)),
        _beyond,
        0.15,
    ),
    "pools": World(
        tether.Pool.uniform(20),
        [tether.Pool(np.arange(20) / 10), tether.Pool(np.arange(20) / 5)],
        lambda rng, count: count,
        lambda actions, rng: (np.asarray(actions) > 16).astype(float),
        0.25,
    ),
}


def play(run: Any, world: World, rng: np.random.Generator, *, rows: int = 400) -> list[Any]:
    """A round of the safe policy, then one of each better one; the rounds."""
    rounds = []
    for place, policy in enumerate([None, *world.news]):
        rounds.append(run.begin(policy, name=None if policy is None else f"policy {place}"))
        taken = rounds[-1].act(world.contexts(rng, rows), rng)
        run.observe(taken, world.loss(taken.actions, rng), rewards=np.arange(len(taken)) % 3)
    return rounds


def started(
    store: Any = "sqlite://", name: str = "nothing", rows: int = 600, **settings: Any
) -> tuple[Any, Any, np.random.Generator]:
    """A run with a round of the safe policy, the round that is calibrated on it, and a stream."""
    rng, world = np.random.default_rng(4), WORLDS[name]
    run = tether.Controller(world.safe, store, **({"alpha": world.alpha} | settings))
    taken = run.begin().act(world.contexts(rng, rows), rng)
    run.observe(taken, world.loss(taken.actions, rng))
    return run, run.begin(world.news[0]), rng
