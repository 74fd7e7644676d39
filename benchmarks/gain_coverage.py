"""How often the intervals of `tether.gain` cover the truth, in worlds in which it is known.

Beta is found on the log from which the gain is estimated, as users do it. Exits with 1 if the 95 %
intervals of a quantity cover the truth in less than 88 % of the logs by more than three standard
errors.

    python -m benchmarks.gain_coverage            # 1,000 logs of each kind, about two minutes
    python -m benchmarks.gain_coverage 100
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import tether

ALPHA = 0.12
LEAST_COVERAGE, ERRORS = 0.88, 3.0
DRAWS = 4
Table = NDArray[np.float64]


@dataclass(frozen=True)
class TabledWorld:
    """Policies and expected outcomes as tables of contexts (all equally likely) and actions."""

    safe: Table
    optimized: Table
    reward: Table
    loss: Table
    noise: float

    def calibration(
        self, rows: int, family: str, how: str, rng: np.random.Generator
    ) -> tether.Calibration:
        """A calibration on a log with tables, with draws for each row, or without contexts."""
        context = rng.integers(len(self.safe), size=rows)
        action = self._draw(self.safe, context, rng)
        reward = self.reward[context, action] + self.noise * rng.normal(size=rows)
        loss = rng.random(rows) < self.loss[context, action]
        safe, optimized = np.log(self.safe), np.log(self.optimized)
        scores = (safe[context, action], optimized[context, action])
        if how == "tables":
            tables = {"log_safe_all": safe[context], "log_optimized_all": optimized[context]}
            log = tether.Log(loss, *scores, reward=reward, context=context, **tables)
            return tether.calibrate(log, alpha=ALPHA, family=family)
        several = np.tile(np.repeat(context, DRAWS), 2)
        half = len(several) // 2
        drawn = np.concatenate(
            [
                self._draw(self.safe, several[:half], rng),
                self._draw(self.optimized, several[half:], rng),
            ]
        )
        own = how == "draws"  # else there is only one context, and it is not stated
        proposals = tether.Proposals(
            safe[several, drawn],
            optimized[several, drawn],
            context=np.tile(np.repeat(np.arange(rows), DRAWS), 2) if own else None,
            source=np.repeat(["safe", "optimized"], half),
        )
        labels = np.arange(rows) if own else None
        log = tether.Log(loss, *scores, reward=reward, context=labels)
        return tether.calibrate(log, proposals, alpha=ALPHA, family=family)

    def truth(self, found: tether.Calibration) -> dict[str, float]:
        """What the gain estimates."""
        tethered = self._tethered(found)
        policies = {"safe": self.safe, "tethered": tethered, "optimized": self.optimized}
        policies["difference"] = tethered - self.safe
        means = {
            f"{quantity} {name}": float((policy * values).sum(axis=1).mean())
            for quantity, values in (("reward", self.reward), ("loss", self.loss))
            for name, policy in policies.items()
        }
        changed = np.maximum(tethered - self.safe, 0).sum(axis=1).mean()
        return {**means, "changed": float(changed)}

    def _tethered(self, found: tether.Calibration) -> Table:
        if np.isinf(found.log_beta):
            return self.safe if found.log_beta < 0 else self.optimized
        beta = found.beta
        if found.family == "mix":
            return np.asarray((self.safe + beta * self.optimized) / (1 + beta))
        kernel = np.minimum(self.optimized, beta * self.safe)
        psi = kernel.sum(axis=1, keepdims=True)
        if found.family == "clip":
            return np.asarray(kernel / psi)
        accepted = 1 - (1 - psi / min(beta, 1)) ** DRAWS
        return np.asarray(accepted * kernel / psi + (1 - accepted) * self.safe)

    @staticmethod
    def _draw(policy: Table, context: NDArray[np.int64], rng: np.random.Generator) -> Table:
        below = policy.cumsum(axis=1)[context] < rng.random(len(context))[:, None]
        return np.asarray(np.minimum(below.sum(axis=1), policy.shape[1] - 1))


def normal_world() -> TabledWorld:
    """N(0, 1) against N(1, 1) on a fine grid, without contexts; harmful past 1.5."""
    action = np.linspace(-6, 7, 1001)[None]
    safe, optimized = (np.exp(-((action - mean) ** 2) / 2) for mean in (0, 1))
    harm = (action > 1.5).astype(float)
    return TabledWorld(safe / safe.sum(), optimized / optimized.sum(), action, harm, 1.0)


def eight_action_world() -> TabledWorld:
    """Twelve contexts, eight actions, and an optimized policy that knows the rewards."""
    rng = np.random.default_rng(5)
    safe, reward = rng.dirichlet(np.full(8, 2.0), size=12), rng.normal(size=(12, 8))
    tilted = safe * np.exp(1.2 * reward)
    harm = np.clip(rng.beta(0.1, 4, size=(12, 8)) + 0.1 * np.maximum(reward, 0), 0, 1)
    return TabledWorld(safe, tilted / tilted.sum(axis=1, keepdims=True), reward, harm, 1.0)


WORLDS = {
    "normal, clip": (normal_world(), "clip", "marginal"),
    "normal, mix": (normal_world(), "mix", "marginal"),
    "eight actions, clip": (eight_action_world(), "clip", "tables"),
    "eight actions, mix": (eight_action_world(), "mix", "tables"),
    "eight actions, clip from draws": (eight_action_world(), "clip", "draws"),
}


@dataclass(frozen=True)
class Coverage:
    """How often the intervals of one estimate cover the truth, and how far it is off on average."""

    share: float
    mean_error: float
    count: int


def coverage(name: str, rows: int, repeats: int) -> dict[str, Coverage]:
    """What the estimates and intervals of many logs are worth."""
    world, family, how = WORLDS[name]
    seen: dict[str, list[tuple[bool, float]]] = {}
    for repeat in range(repeats):
        found = world.calibration(rows, family, how, np.random.default_rng([rows, repeat]))
        truth = world.truth(found)
        for quantity, estimate in _estimates(tether.gain(found)):
            results = seen.setdefault(quantity, [])
            if estimate.known:
                true = truth[quantity]
                covers = estimate.lower - 1e-12 <= true <= estimate.upper + 1e-12
                results.append((covers, estimate.mean - true))
    return {
        quantity: Coverage(*(float(mean) for mean in np.mean(results, axis=0)), len(results))
        for quantity, results in seen.items()
    }


def _estimates(gain: tether.Gain) -> Iterator[tuple[str, tether.control.WeightedMean]]:
    assert gain.reward is not None
    for quantity, means in (("reward", gain.reward), ("loss", gain.losses["loss"])):
        for policy in ("safe", "tethered", "optimized", "difference"):
            yield f"{quantity} {policy}", getattr(means, policy)
    yield "changed", gain.changed


def main() -> int:
    """Print a table for every world and number of rows."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kept = True
    for name in WORLDS:
        for rows in (200, 1000):
            print(f"{name}, {rows} rows")
            for quantity, found in coverage(name, rows, repeats).items():
                error = f"mean error {found.mean_error:+.4f}"
                spread = np.sqrt(LEAST_COVERAGE * (1 - LEAST_COVERAGE) / found.count)
                low = found.share < LEAST_COVERAGE - ERRORS * spread
                kept &= not low
                print(
                    f"  {quantity:<20} {found.share:.3f} of {found.count}, {error}"
                    f"{'  TOO LOW' if low else ''}"
                )
            sys.stdout.flush()
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
