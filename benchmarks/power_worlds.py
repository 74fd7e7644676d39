"""Worlds in which gain and risk of every policy are known, for `benchmarks.power`.

A population is a list of equally likely contexts, with the expected loss and reward of every action
in each. Rows are drawn from it with replacement, so the risk of a policy over the population is its
true risk. Losses in a log are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tether
from tether.demo.biopsy_clinic import (
    TRAINING_PATIENTS,
    load_patients,
    make_optimized_policy,
    make_safe_policy,
    train_score,
)


@dataclass(frozen=True)
class Rows:
    """What the safe policy did, and what came of it."""

    contexts: Any
    actions: np.ndarray
    losses: np.ndarray
    rewards: np.ndarray


@dataclass(frozen=True)
class Population:
    """Contexts (None in a world without), and tables of contexts × actions."""

    contexts: np.ndarray | None
    loss: np.ndarray
    reward: np.ndarray

    def collect(self, safe: Any, rows: int, rng: np.random.Generator) -> Rows:
        """Rows of the safe policy."""
        who = rng.integers(len(self.loss), size=rows)
        contexts = None if self.contexts is None else self.contexts[who]
        actions = safe.sample(rows if contexts is None else contexts, rng)
        column = np.searchsorted(safe.actions, actions)  # they are sorted
        lost = rng.random(rows) < self.loss[who, column]
        return Rows(contexts, actions, lost.astype(float), self.reward[who, column])

    def table(self, policy: Any) -> np.ndarray:
        """The probability of every action in every context."""
        table = policy.log_prob_all(1 if self.contexts is None else self.contexts)
        return np.exp(np.broadcast_to(table, self.loss.shape))

    def outcome(self, chances: np.ndarray) -> tuple[float, float]:
        """The true risk and reward of a policy."""
        rows = len(self.loss)
        return float((chances * self.loss).sum() / rows), float(
            (chances * self.reward).sum() / rows
        )


@dataclass(frozen=True)
class PowerWorld:
    """Two policies, what is tolerated, and whom they meet."""

    alpha: float
    safe: Any
    optimized: Any
    population: Population
    training: Population
    """Where training rows come from; another population where a model could memorize this one."""


def _softmax_policy(logits: Callable[[np.ndarray], np.ndarray], actions: int) -> Any:
    return tether.Categorical.from_logits(logits, actions=np.arange(actions))


def _gaussian(mean: float, harmful: float, alpha: float) -> PowerWorld:
    """N(0, 1) against N(mean, 1) on a grid, without contexts; harm sets in smoothly."""
    grid = np.linspace(-5, 5 + mean, 201)
    safe, optimized = (
        tether.Categorical.from_logits(-((grid - center) ** 2) / 2, actions=grid)
        for center in (0.0, mean)
    )
    harm = 1 / (1 + np.exp(-4 * (grid - harmful)))
    population = Population(None, harm[None], grid[None])
    return PowerWorld(alpha, safe, optimized, population, population)


def marginal_gaussian(rng: np.random.Generator) -> PowerWorld:
    """Policies one and a half standard deviations apart."""
    return _gaussian(1.5, 1.6, 0.1)


def ten_nats(rng: np.random.Generator) -> PowerWorld:
    """Policies 10 nats apart: the safe policy never does what the optimized one does."""
    return _gaussian(np.sqrt(20.0), 2.0, 0.08)


def eight_actions(rng: np.random.Generator) -> PowerWorld:
    """Forty contexts with four features and eight actions; harm and reward agree in part."""
    fixed = np.random.default_rng(8)
    contexts = fixed.normal(size=(40, 4))
    to_reward, to_other, habit = fixed.normal(size=(3, 4, 8)) / 2
    return _linear(contexts, to_reward, 0.4 * to_reward + to_other, habit, alpha=0.1)


def continuous_contexts(rng: np.random.Generator) -> PowerWorld:
    """Two thousand contexts with two features, four actions; harm is not linear in them."""
    fixed = np.random.default_rng(9)
    contexts = fixed.normal(size=(2000, 2))
    to_reward, habit = fixed.normal(size=(2, 2, 4))
    world = _linear(contexts, to_reward, to_reward, habit / 2, alpha=0.1)
    far = (contexts**2).sum(axis=1, keepdims=True)
    loss = 1 / (1 + np.exp(6 - 2 * (contexts @ to_reward) - far))
    population = Population(contexts, loss, world.population.reward)
    return PowerWorld(0.1, world.safe, world.optimized, population, population)


def _linear(
    contexts: np.ndarray,
    to_reward: np.ndarray,
    to_harm: np.ndarray,
    habit: np.ndarray,
    alpha: float,
) -> PowerWorld:
    """Rewards and log odds of harm linear in the context; the optimized policy follows rewards."""
    actions = to_reward.shape[1]
    safe = _softmax_policy(lambda x: x @ habit - x @ to_harm, actions)
    optimized = _softmax_policy(lambda x: x @ habit + 2 * (x @ to_reward), actions)
    loss = 1 / (1 + np.exp(3.4 - 2 * (contexts @ to_harm)))
    population = Population(contexts, loss, contexts @ to_reward)
    return PowerWorld(alpha, safe, optimized, population, population)


def biopsy(rng: np.random.Generator) -> PowerWorld:
    """The clinic of the demonstration, on a new random split of its patients.

    Training rows are drawn from the first half of the patients, of which a hundred trained the
    score; calibration rows from the others, over whom risk and gain are computed.
    """
    features, malignant = load_patients()
    order = rng.permutation(len(features))
    first, second = np.array_split(order, 2)
    scored = first[:TRAINING_PATIENTS]
    safe = make_safe_policy()
    optimized = make_optimized_policy(train_score(features[scored], malignant[scored]), safe)
    return PowerWorld(
        0.08,
        _sorted_actions(safe),
        _sorted_actions(optimized),
        _patients(features[second], malignant[second]),
        _patients(features[first], malignant[first]),
    )


def _patients(features: np.ndarray, malignant: np.ndarray) -> Population:
    refer = np.zeros(len(features))
    return Population(
        features,
        np.column_stack([refer, malignant.astype(float)]),
        np.column_stack([refer, (~malignant).astype(float)]),
    )


def _sorted_actions(policy: Any) -> Any:
    """The same policy with its actions in order: refer, watch."""
    return tether.Categorical.from_logits(
        lambda contexts: np.broadcast_to(policy.log_prob_all(contexts), (len(contexts), 2))[
            :, ::-1
        ],
        actions=["refer", "watch"],
    )


WORLDS: dict[str, Callable[[np.random.Generator], PowerWorld]] = {
    "marginal Gaussian": marginal_gaussian,
    "eight actions": eight_actions,
    "continuous contexts": continuous_contexts,
    "10 nats apart": ten_nats,
    "biopsy": biopsy,
}
