"""Contexts in which two Gaussian policies are 0 to 30 nats apart, 10 on average.

A context is the distance d between the means: the safe policy is N(0, 1), the optimized one
N(d, 1), and their divergence is d²/2. An action harms with a probability that depends on the action
alone, and its reward is the action. What is served is budgeted clip, whose density is known by
integration over a grid of actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

import tether

GRID = np.linspace(-6, 14, 801)
STEP = GRID[1] - GRID[0]
DISTANCES = 100
"""How many contexts stand for all of them when risk and reward are computed."""


def _log_normal(action, mean):
    return -((np.asarray(action) - np.asarray(mean)) ** 2) / 2 - np.log(2 * np.pi) / 2


SAFE = tether.FunctionPolicy(
    lambda contexts, rng: rng.normal(size=len(contexts)),
    lambda contexts, actions: _log_normal(actions, 0.0),
)
OPTIMIZED = tether.FunctionPolicy(
    lambda contexts, rng: rng.normal(contexts),
    lambda contexts, actions: _log_normal(actions, contexts),
)


@dataclass(frozen=True)
class FarContexts:
    """Distances are uniform up to `farthest`."""

    alpha: float = 0.08
    farthest: float = np.sqrt(60.0)
    harmful: float = 2.0
    block: int = 16

    @property
    def family(self) -> str:
        """What is calibrated and served."""
        return f"budgeted_clip({self.block})"

    def contexts(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Contexts at random."""
        return rng.uniform(0, self.farthest, size=rows)

    def log(self, contexts: np.ndarray, rng: np.random.Generator) -> tether.Log:
        """What the safe policy did."""
        actions = SAFE.sample(contexts, rng)
        harmed = rng.random(len(actions)) < expit(4 * (actions - self.harmful))
        return tether.make_log(SAFE, OPTIMIZED, contexts, actions, harmed, rewards=actions)

    def outcome(self, log_beta: float) -> tuple[float, float]:
        """The true risk and reward of what is served."""
        density = np.exp(_log_normal(GRID, 0.0))[None]
        if log_beta > -np.inf:
            far = (np.arange(DISTANCES) + 0.5) / DISTANCES * self.farthest
            density = _budgeted_density(far, log_beta, self.block)
        harm = expit(4 * (GRID - self.harmful))
        return tuple(float((density * each).sum(axis=1).mean() * STEP) for each in (harm, GRID))

    def best(self) -> tuple[float, float]:
        """The log beta whose true risk is alpha, and its reward."""
        return _best(self)


@lru_cache
def _best(world: FarContexts) -> tuple[float, float]:
    log_beta = brentq(lambda value: world.outcome(value)[0] - world.alpha, -40.0, 40.0)
    return log_beta, world.outcome(log_beta)[1]


def _budgeted_density(distance: np.ndarray, log_beta: float, block: int) -> np.ndarray:
    """At most `block` proposals, then an action of the safe policy; by its definition."""
    safe, optimized = _log_normal(GRID, 0.0)[None], _log_normal(GRID[None], distance[:, None])
    beyond = optimized - safe - log_beta
    proposed, accept = (safe, beyond) if log_beta < 0 else (optimized, -beyond)
    taken = np.exp(proposed + np.minimum(accept, 0.0))
    rejected = 1 - np.clip(taken.sum(axis=1, keepdims=True) * STEP, 0, 1)
    tries = sum(rejected**count for count in range(block))
    return taken * tries + rejected**block * np.exp(safe)
