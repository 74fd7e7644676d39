"""How often the intervals of `Calibration.gain` miss the truth, in worlds in which it is known.

Beta is found on the log from which the gain is estimated, as users do it: intervals of 95 % that
cover in 85 % of the logs are taken to hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import tether
from benchmarks.cases import Case

ALPHA, LEAST = 0.12, 0.85
Array = np.ndarray


class World:
    """Policies, expected rewards and expected losses as tables of contexts and actions."""

    def __init__(self, safe: Array, optimized: Array, reward: Array, loss: Array) -> None:
        self.safe, self.optimized, self.reward, self.loss = safe, optimized, reward, loss

    def log(self, rows: int, rng: np.random.Generator, *, tables: bool) -> tether.Log:
        """A log of the safe policy; without tables there is only one context."""
        context = rng.integers(len(self.safe), size=rows)
        below = self.safe.cumsum(axis=1)[context] < rng.random(rows)[:, None]
        action = np.minimum(below.sum(axis=1), self.safe.shape[1] - 1)
        safe, optimized = np.log(self.safe), np.log(self.optimized)
        more = {}
        if tables:
            more = {"log_safe_all": safe[context], "log_optimized_all": optimized[context]}
        return tether.Log(
            rng.random(rows) < self.loss[context, action],
            safe[context, action],
            optimized[context, action],
            reward=self.reward[context, action] + rng.normal(size=rows),
            **more,
        )

    def truth(self, found: tether.Calibration) -> dict[str, float]:
        """What the gain estimates."""
        if np.isinf(found.log_beta):
            tethered = self.safe if found.log_beta < 0 else self.optimized
        elif found.family == "mix":
            tethered = (self.safe + found.beta * self.optimized) / (1 + found.beta)
        else:
            kernel = np.minimum(self.optimized, found.beta * self.safe)
            tethered = kernel / kernel.sum(axis=1, keepdims=True)
        policies = {"safe": self.safe, "tethered": tethered, "optimized": self.optimized}
        policies["difference"] = tethered - self.safe
        return {
            f"{quantity} {name}": float((policy * values).sum(axis=1).mean())
            for quantity, values in (("reward", self.reward), ("loss", self.loss))
            for name, policy in policies.items()
        }


def normal(shift: float = 1.0, scale: float = 1.0) -> World:
    """N(0, 1) against N(shift, scale) on a fine grid; harmful past 1.5."""
    action = np.linspace(-6, 9, 1501)[None]
    safe, optimized = (
        np.exp(-(((action - mean) / width) ** 2) / 2) for mean, width in ((0, 1), (shift, scale))
    )
    harm = (action > 1.5) * 1.0
    return World(safe / safe.sum(), optimized / optimized.sum(), action, harm)


def eight_actions() -> World:
    """Twelve contexts, eight actions, and an optimized policy that knows the rewards."""
    rng = np.random.default_rng(5)
    safe, reward = rng.dirichlet(np.full(8, 2.0), size=12), rng.normal(size=(12, 8))
    tilted = safe * np.exp(1.2 * reward)
    harm = np.clip(rng.beta(0.1, 4, size=(12, 8)) + 0.1 * np.maximum(reward, 0), 0, 1)
    return World(safe, tilted / tilted.sum(axis=1, keepdims=True), reward, harm)


WORLDS = {
    "normal, clip": (normal(), "clip", False),
    "normal, mix": (normal(), "mix", False),
    "heavy weights, clip": (normal(2.0), "clip", False),
    "eight actions, clip": (eight_actions(), "clip", True),
    "eight actions, mix": (eight_actions(), "mix", True),
}


QUANTITIES = [
    (quantity, policy)
    for quantity in ("reward", "loss")
    for policy in ("safe", "tethered", "optimized", "difference")
]


def misses(name: str, rows: int, rng: np.random.Generator) -> Array:
    """Whether each interval of one log misses the truth; NaN where there is no interval."""
    world, family, tables = WORLDS[name]
    weight = {} if tables or family == "clip" else {"test_weight": 30.0}
    log = world.log(rows, rng, tables=tables)
    found = tether.calibrate(log, alpha=ALPHA, family=family, **weight)
    truth, missed = world.truth(found), []
    for quantity, policy in QUANTITIES:
        means = found.gain.reward if quantity == "reward" else found.gain.losses["loss"]
        each, true = getattr(means, policy), truth[f"{quantity} {policy}"]
        covers = each.known and each.lower - 1e-9 <= true <= each.upper + 1e-9
        missed.append(float(not covers) if each.known else np.nan)
    return np.array(missed)


def cases() -> Iterator[Case]:
    """A step is a quantity: rewards, then losses, of safe, tethered, optimized, difference."""
    for name in WORLDS:
        for rows in (200, 1000):
            repeat = partial(misses, name, rows)
            yield Case(f"intervals of gains, {name}, {rows} rows: missed", repeat, 1 - LEAST)
