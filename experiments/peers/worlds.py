"""Worlds whose true risk is known, so that promises can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

import tether


@dataclass(frozen=True)
class Labelled:
    """Items with scored labels: uniform scores s, true with probability skill · (0.6 + 0.4 s).

    An item's skill is uniform in [0.8, 1]. All means below are integrals over s and the skill.
    """

    labels: int

    def draw(self, rng: np.random.Generator, items: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and labels, items × labels; every item has a true one, as MAPIE demands.

        That matters for one item in a hundred thousand, and is left out of the integrals.
        """
        scores = rng.random((items, self.labels))
        skill = rng.uniform(0.8, 1.0, (items, 1))
        true = rng.random(scores.shape) < skill * (0.6 + 0.4 * scores)
        true[~true.any(axis=1), 0] = True
        return scores, true

    def false_share(self, threshold: float) -> float:
        """The expected share of an item's kept labels that are false; 0 if none is kept."""
        t = np.clip(threshold, 0, 1)
        return float((1 - t**self.labels) * (1 - 0.9 * (0.8 + 0.2 * t)))

    def missed(self, threshold: float) -> float:
        """The expected share of an item's true labels that are dropped."""
        t = np.clip(threshold, 0, 1)
        return float((0.6 * t + 0.2 * t**2) / 0.8)

    def dropped(self, threshold: float) -> float:
        """The expected share of false labels that are dropped."""
        t = np.clip(threshold, 0, 1)
        return float((0.46 * t - 0.18 * t**2) / 0.28)


def as_claims(scores: np.ndarray, labels: np.ndarray) -> tether.Claims:
    """A table of scores as claims of items."""
    return tether.Claims(
        scores.ravel(), labels.ravel(), np.arange(0, scores.size + 1, scores.shape[1])
    )


@dataclass(frozen=True)
class Coins:
    """A loss that is a coin of its own at each threshold: no item's loss is monotone."""

    alpha: float
    thresholds: int

    @cached_property
    def grid(self) -> np.ndarray:
        """Thresholds from bold to safe."""
        return np.linspace(0, 1, self.thresholds)

    @cached_property
    def truth(self) -> np.ndarray:
        """The true risk at each."""
        waves = np.cos(np.arange(self.thresholds)) / 50
        return np.clip(waves + 0.6 * (1 + self.alpha) * (1 - self.grid), 0, 1)

    def draw(self, rng: np.random.Generator, items: int) -> np.ndarray:
        """Losses, items × thresholds."""
        return (rng.random((items, self.thresholds)) < self.truth).astype(float)

    def risk_and_power(self, threshold: float) -> tuple[float, float]:
        """The true risk, and how far from the safest threshold."""
        if not np.isfinite(threshold):
            return 0.0, 0.0
        return float(self.truth[np.searchsorted(self.grid, threshold)]), 1 - threshold


@dataclass(frozen=True)
class Binary:
    """A classifier's scores: N(0, 1) for the negative, N(2, 1) for the positive, 40 % and 60 %."""

    def draw(self, rng: np.random.Generator, items: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores squeezed into (0, 1), and labels."""
        labels = rng.random(items) < 0.6
        return norm.cdf(rng.normal(size=items) + 2 * labels - 1), labels

    def risk_and_power(self, threshold: float) -> tuple[float, float]:
        """The false share of what is selected, and the share of the positive that is selected."""
        if not np.isfinite(threshold):
            return 0.0, 0.0
        at = norm.ppf(np.clip(threshold, 1e-12, 1 - 1e-12)) + 1
        false, true = 0.4 * norm.sf(at), 0.6 * norm.sf(at - 2)
        return float(false / (false + true)), float(true / 0.6)


@dataclass(frozen=True)
class Gaussians:
    """N(0, 1) is safe, N(1, 0.8) optimized; actions above 1.5 cost 1; the reward is the action."""

    safe = tether.Gaussian(0.0, 1.0)
    optimized = tether.Gaussian(1.0, 0.8)
    grid = np.linspace(-8, 8, 16_001)

    def draw(self, rng: np.random.Generator, rows: int) -> tuple[tether.Log, tether.Proposals]:
        """What the safe policy did, and as many draws of the optimized one."""
        actions, proposed = self.safe.sample(rows, rng), self.optimized.sample(rows, rng)
        log = tether.make_log(self.safe, self.optimized, None, actions, actions > 1.5)
        return log, tether.Proposals(
            self.safe.log_prob(None, proposed), self.optimized.log_prob(None, proposed)
        )

    @cached_property
    def densities(self) -> tuple[np.ndarray, np.ndarray]:
        """Both policies on the grid."""
        return np.exp(self.safe.log_prob(None, self.grid)), np.exp(
            self.optimized.log_prob(None, self.grid)
        )

    def risk_and_power(self, log_beta: float, family: str = "clip") -> tuple[float, float]:
        """The risk deployed, and how much of the way from the safe reward to the optimized one."""
        safe, optimized = self.densities
        if log_beta == -np.inf:
            density = safe
        elif log_beta == np.inf:
            density = optimized
        elif family == "clip":
            density = np.minimum(optimized, np.exp(log_beta) * safe)
        else:
            density = safe + np.exp(log_beta) * optimized
        density = density / density.sum()
        return float(density[self.grid > 1.5].sum()), float(density @ self.grid)
