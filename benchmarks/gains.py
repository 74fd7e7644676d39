"""How often the intervals of `Calibration.gain` miss the truth, in worlds in which it is known.

Beta is found on the log from which the gain is estimated, as users do it: intervals of 95 % that
cover in 85 % of the logs are taken to hold. Wrong: an interval that counts rows, whatever their
weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import tether
from benchmarks.cases import Case
from benchmarks.worlds import World

ALPHA, LEAST = 0.12, 0.85
Array = np.ndarray


def normal(name: str, shift: float = 1.0) -> World:
    """N(0, 1) against N(shift, 1) on a fine grid; harmful past 1.5."""
    action = np.linspace(-6, 9, 1501)[None]
    tables = [np.exp(-((action - mean) ** 2) / 2) for mean in (0, shift)]
    safe, optimized = (each / each.sum() for each in tables)
    return World(name, safe, optimized, (action > 1.5) * 1.0, action, np.ones(1))


def eight_actions() -> World:
    """Twelve contexts, eight actions, and an optimized policy that knows the rewards."""
    rng = np.random.default_rng(5)
    safe, reward = rng.dirichlet(np.full(8, 2.0), size=12), rng.normal(size=(12, 8))
    tilted = safe * np.exp(1.2 * reward)
    harm = np.clip(rng.beta(0.1, 4, size=(12, 8)) + 0.1 * np.maximum(reward, 0), 0, 1)
    optimized = tilted / tilted.sum(axis=1, keepdims=True)
    contexts = np.full(12, 1 / 12)
    return World("eight actions", safe, optimized, harm, reward, contexts, "tables")


WORLDS = {
    "normal, clip": (normal("normal"), "clip"),
    "normal, mix": (normal("normal"), "mix"),
    "heavy weights, clip": (normal("heavy weights", 2.0), "clip"),
    "eight actions, clip": (eight_actions(), "clip"),
    "eight actions, mix": (eight_actions(), "mix"),
}
POLICIES = ("safe", "tethered", "optimized", "difference")
QUANTITIES = [(quantity, policy) for quantity in ("reward", "loss") for policy in POLICIES]


def misses(name: str, rows: int, rng: np.random.Generator) -> Array:
    """Whether each interval of one log misses the truth; NaN where there is no interval."""
    world, family = WORLDS[name]
    weight = {"test_weight": 30.0} if (world.view, family) == ("marginal", "mix") else {}
    log, _ = world.log(rows, rng, rewards=True)
    found = tether.calibrate(log, alpha=ALPHA, family=family, **weight)
    tethered = world.policy(family, found.log_beta)
    tables = world.safe, tethered, world.optimized, tethered - world.safe
    policies = dict(zip(POLICIES, tables, strict=True))
    missed = []
    for quantity, policy in QUANTITIES:
        means = found.gain.reward if quantity == "reward" else found.gain.losses["loss"]
        each, true = getattr(means, policy), world.mean(policies[policy], getattr(world, quantity))
        covers = each.known and each.lower - 1e-9 <= true <= each.upper + 1e-9
        missed.append(float(not covers) if each.known else np.nan)
    return np.array(missed)


def counted(name: str, rows: int, rng: np.random.Generator) -> float:
    """Wrong: an interval of the optimized policy's reward as if each row counted as one."""
    world, _ = WORLDS[name]
    log, _ = world.log(rows, rng, rewards=True)
    share = np.exp(log.log_optimized - log.log_safe)
    share /= share.sum()
    mean = share @ log.reward
    half = 1.96 * np.sqrt(share @ (log.reward - mean) ** 2 / rows)
    return abs(mean - world.mean(world.optimized, world.reward)) > half


def cases() -> Iterator[Case]:
    """A step is a quantity: rewards, then losses, of safe, tethered, optimized, difference."""
    for name in WORLDS:
        is_heavy = name.startswith("heavy")
        for rows in (1000, 3000) if is_heavy else (200, 1000):
            repeat, told = partial(misses, name, rows), f"{name}, {rows} rows: missed"
            yield Case(f"intervals of gains, {told}", repeat, 1 - LEAST)
            if is_heavy or name == "normal, clip":
                wrong = partial(counted, name, rows)
                yield Case(f"every row counts as one, {told}", wrong, 1 - LEAST, True)
