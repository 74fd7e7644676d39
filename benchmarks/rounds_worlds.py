"""Worlds for complete runs: contexts come, actions cost, and an optimizer learns what pays.

In each of them what pays is also what harms, so that a policy which learns well exceeds alpha. The
expected loss and reward of any policy are sums (or one quadrature) and not estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import tether
from tether.rounds import TrainingRows


class World(Protocol):
    """What a run needs to know of the world it runs in."""

    name: str
    bound: float
    alphas: tuple[float, ...]
    safe: Any

    def arrive(self, rows: int, rng: np.random.Generator) -> Any:
        """The contexts of a round, or their number where there are none."""
        ...

    def outcome(self, contexts: Any, actions: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """Losses and rewards, with chance in them."""
        ...

    def improve(self, rows: TrainingRows) -> Any:
        """A policy that follows the rewards of these rows, and looks at nothing else."""
        ...

    def expected(self, policy: Any) -> tuple[float, float]:
        """The loss and the reward that a policy has in truth."""
        ...


class FiniteActions:
    """Twelve kinds of patients and five treatments: a stronger treatment helps and harms more."""

    name, bound, alphas = "contexts, five actions", 1.0, (0.06, 0.12)

    def __init__(self, contexts: int = 12, actions: int = 5) -> None:
        rng = np.random.default_rng(5)
        strength = np.linspace(-1, 1, actions)
        self.gain = strength + 0.5 * rng.normal(size=(contexts, actions))
        self.harm = 1 / (1 + np.exp(2.8 - 2 * self.gain))
        self.safe = tether.Categorical.from_logits(np.tile(-2.5 * strength, (contexts, 1)))
        self._log_safe = self.safe.log_prob_all(np.arange(contexts))

    def arrive(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Patients of all kinds alike."""
        return rng.integers(len(self.gain), size=rows)

    def outcome(self, contexts, actions, rng) -> tuple[np.ndarray, np.ndarray]:
        """Harm or none, and a noisy gain."""
        loss = rng.random(len(actions)) < self.harm[contexts, actions]
        return loss.astype(float), self.gain[contexts, actions] + rng.normal(size=len(actions))

    def improve(self, rows: TrainingRows) -> tether.Categorical:
        """Mean rewards of each treatment in each kind, held back where there are few rows."""
        total, count = np.zeros_like(self.gain), np.full(self.gain.shape, 2.0)
        np.add.at(total, (rows.contexts, rows.actions), rows.reward)
        np.add.at(count, (rows.contexts, rows.actions), 1)
        return tether.Categorical.from_logits(self._log_safe + 4 * total / count)

    def expected(self, policy: Any) -> tuple[float, float]:
        """Sums over the table."""
        density = np.exp(policy.log_prob_all(np.arange(len(self.gain))))
        return tuple(float((density * each).sum(axis=1).mean()) for each in (self.harm, self.gain))


class GaussianPool:
    """A pool of 400 candidates with Gaussian features: what promises most is also what fails."""

    name, bound, alphas = "Gaussian pool", 1.0, (0.1, 0.2)

    def __init__(self, size: int = 400, features: int = 3) -> None:
        rng = np.random.default_rng(8)
        self.features = np.column_stack([np.ones(size), rng.normal(size=(size, features))])
        self.gain = self.features @ [0.0, 1.0, 0.5, -0.3]
        self.fails = 1 / (1 + np.exp(-3 * (self.gain - 2.2)))
        self.safe = tether.Pool.uniform(size)

    def arrive(self, rows: int, rng: np.random.Generator) -> int:
        """There are no contexts."""
        return rows

    def outcome(self, contexts, actions, rng) -> tuple[np.ndarray, np.ndarray]:
        """Failure or none, and a noisy gain."""
        loss = rng.random(len(actions)) < self.fails[actions]
        return loss.astype(float), self.gain[actions] + rng.normal(size=len(actions))

    def improve(self, rows: TrainingRows) -> tether.Pool:
        """Ridge regression of the reward on the features; the pool by what it predicts."""
        seen = self.features[rows.actions]
        ridge = seen.T @ seen + np.eye(seen.shape[1])
        return tether.Pool(self.features @ np.linalg.solve(ridge, seen.T @ rows.reward), 0.5)

    def expected(self, policy: Any) -> tuple[float, float]:
        """Sums over the table."""
        density = np.exp(policy.log_prob_all(1)[0])
        return float(density @ self.fails), float(density @ self.gain)


@dataclass(frozen=True)
class Student:
    """Student's t around a mean: actions with heavy tails, and heavy-tailed ratios between two."""

    mean: float
    freedom: float
    scale: float = 1.0

    def sample(self, contexts: int, rng: np.random.Generator) -> np.ndarray:
        """The mean plus noise."""
        return self.mean + self.scale * rng.standard_t(self.freedom, size=contexts)

    def log_prob(self, contexts: int, actions: Any) -> np.ndarray:
        """The log-density of each action."""
        off = (np.asarray(actions) - self.mean) / self.scale
        return self._constant - (self.freedom + 1) / 2 * np.log1p(off**2 / self.freedom)

    @property
    def _constant(self) -> float:
        from scipy.special import gammaln

        half = self.freedom / 2
        return float(
            gammaln(half + 0.5)
            - gammaln(half)
            - np.log(self.freedom * np.pi) / 2
            - np.log(self.scale)
        )


class HeavyTails:
    """A dose with Student noise: damages are Pareto, up to ten, and far doses cost far more."""

    name, bound, alphas = "heavy tails", 10.0, (0.5, 0.8)
    shape = 1.2
    """Of the damages: without the bound their variance would be infinite."""

    def __init__(self) -> None:
        self.safe = Student(0.0, 4.0)
        spread = np.linspace(-9, 9, 6001)
        self.grid, self.step = np.sinh(spread), np.cosh(spread) * (spread[1] - spread[0])

    def arrive(self, rows: int, rng: np.random.Generator) -> int:
        """There are no contexts."""
        return rows

    def _scale(self, actions: np.ndarray) -> np.ndarray:
        return 0.03 + 0.08 * np.logaddexp(0, 2 * actions) + 0.01 * actions**2

    def outcome(self, contexts, actions, rng) -> tuple[np.ndarray, np.ndarray]:
        """Pareto damages up to the bound, and a gain with heavy-tailed noise."""
        damage = self._scale(actions) * rng.pareto(self.shape, size=len(actions))
        reward = self._gain(actions) + rng.standard_t(3, size=len(actions))
        return np.minimum(damage, self.bound), reward

    @staticmethod
    def _gain(actions: np.ndarray) -> np.ndarray:
        return np.clip(actions, -4, 4)

    def improve(self, rows: TrainingRows) -> Student:
        """Moves the mean to where rewards were high, by the ranks that heavy tails leave alone."""
        rank = rows.reward.argsort().argsort() / len(rows)
        top = rows.actions[rank > 0.8]
        return Student(float(np.median(top)), 3.0, 0.8)

    def expected(self, policy: Any) -> tuple[float, float]:
        """By quadrature over doses; a clipped Pareto has its mean in closed form."""
        log_density = policy.log_prob(len(self.grid), self.grid)
        density = np.exp(log_density) * self.step
        density /= density.sum()
        scale, power = self._scale(self.grid), 1 - self.shape
        loss = scale * ((1 + self.bound / scale) ** power - 1) / power
        return float(density @ loss), float(density @ self._gain(self.grid))


def all_worlds() -> list[World]:
    """Every world of the table."""
    return [FiniteActions(), GaussianPool(), HeavyTails()]
