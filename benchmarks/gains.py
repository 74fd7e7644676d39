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
from benchmarks.worlds import eight_actions, gaussian

LEAST = 0.85
Array = np.ndarray
NORMAL, HEAVY = gaussian(deviation=1.0), gaussian(mean=2.0, deviation=1.0)
WORLDS = {
    "normal, clip": (NORMAL, "clip", 0.12),
    "normal, mix": (NORMAL, "mix", 0.12),
    "heavy weights, clip": (HEAVY, "clip", 0.12),
    "eight actions, clip": (eight_actions(), "clip", 0.08),
    "eight actions, mix": (eight_actions(), "mix", 0.08),
}
"""A world, a family and alpha."""
POLICIES = ("safe", "tethered", "optimized", "difference")
QUANTITIES = [(quantity, policy) for quantity in ("reward", "loss") for policy in POLICIES]


def misses(name: str, rows: int, rng: np.random.Generator) -> Array:
    """Whether each interval of one log misses the truth; NaN where there is no interval."""
    world, family, alpha = WORLDS[name]
    weight = {"test_weight": 30.0} if (world.view, family) == ("marginal", "mix") else {}
    log, _ = world.log(rows, rng, rewards=True)
    found = tether.calibrate(log, alpha=alpha, family=family, **weight)
    tethered = world.policy(family, found.log_beta)
    tables = world.safe, tethered, world.optimized, tethered - world.safe
    policies = dict(zip(POLICIES, tables, strict=True))
    missed = []
    for quantity, policy in QUANTITIES:
        means = found.gain.reward if quantity == "reward" else found.gain.losses["loss"]
        each, true = getattr(means, policy), world.mean(policies[policy], getattr(world, quantity))
        covers = each.mean is not None and each.lower - 1e-9 <= true <= each.upper + 1e-9
        missed.append(np.nan if each.mean is None else float(not covers))
    return np.array(missed)


def counted(name: str, rows: int, rng: np.random.Generator) -> float:
    """Wrong: an interval of the optimized policy's reward as if each row counted as one."""
    world = WORLDS[name][0]
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
