"""Releases to keys that come back: what one row is decides whether alpha holds.

`python -m benchmarks.release_keys` simulates a population of keys, some of which the new system
always harms, which return in every step with the same hash and so with the same system. Harmed keys
make one request a step and the others fifty. The risk of a step is the mean over the keys that are
present.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from tether.release.calibration_window import replaces_window
from tether.release.risk_bounds import expected_bound
from tether.release.share_formulas import calibrated_share, exact_share

ALPHA, OLD_RISK, OLD_ROWS = 0.02, 0.01, 2000
REQUESTS = 50


@dataclass(frozen=True)
class Population:
    """Keys of which a share is always harmed; each is present in a step with a probability."""

    name: str
    harmed: float
    keys: int = 1000
    present: float = 1.0
    steps: int = 12


POPULATIONS = [
    Population("4 % of the keys harmed", 0.04),
    Population("10 % harmed", 0.1),
    Population("10 % harmed, 60 % present", 0.1, present=0.6),
    Population("10 % harmed, 200 keys", 0.1, keys=200),
    Population("1 % harmed", 0.01),
]
RIGHT = ("first unit, window, exact", "first unit, window")
ROWS = (*RIGHT, "first unit, all rows", "each step again", "each request (wrong)")
windows_replaced = np.vectorize(replaces_window, otypes=[bool])


def simulate(
    population: Population, rows: str, runs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Shares and risks, steps × runs."""
    shape = (runs, population.keys)
    position, harm = rng.random(shape), rng.random(shape) < population.harmed
    old_bound = expected_bound(np.full(runs, OLD_ROWS), rng.binomial(OLD_ROWS, OLD_RISK, runs), 1.0)
    exact = rows.endswith("exact")
    formula = _exact if exact else _calibrated
    entered = np.zeros(shape, bool)
    count, losses, window, since, harmed = (np.zeros(runs, int) for _ in range(5))
    share = formula(count, losses, old_bound)
    shares, risks = [], []
    for _ in range(population.steps):
        present = rng.random(shape) < population.present
        new = present & (position < share[:, None])
        risk = np.where(new, harm, OLD_RISK)
        risks.append((risk * present).sum(axis=1) / present.sum(axis=1))
        shares.append(share)
        first = new & ~entered
        entered |= new
        if "window" in rows:
            since, harmed = since + first.sum(axis=1), harmed + (first & harm).sum(axis=1)
            taken = windows_replaced(window, since)
            share = np.where(taken, formula(since, harmed, old_bound), share)
            window = np.where(taken, since, window)
            since, harmed = np.where(taken, 0, since), np.where(taken, 0, harmed)
            continue
        counted = first if "all rows" in rows else new
        weight = np.where(harm, 1, REQUESTS) if "request" in rows else 1
        count = count + (counted * weight).sum(axis=1)
        losses = losses + (counted & harm).sum(axis=1)
        share = formula(count, losses, old_bound)
    return np.stack(shares), np.stack(risks)


def _calibrated(rows: np.ndarray, losses: np.ndarray, old_bound: np.ndarray) -> np.ndarray:
    return calibrated_share(old_bound, expected_bound(rows, losses, 1.0), np.array(ALPHA))


def _exact(rows: np.ndarray, losses: np.ndarray, old_bound: np.ndarray) -> np.ndarray:
    return exact_share(rows, losses, old_bound, np.array(ALPHA))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    good, broke = True, dict.fromkeys((name for name in ROWS if "wrong" in name), False)
    print(
        f"{'population':<27} {'one row is':<27} {'highest risk ± se':<18} {'step':>4} held  shares"
    )
    for population in POPULATIONS:
        for name in ROWS:
            rng = np.random.default_rng([len(population.name), ROWS.index(name)])
            shares, risks = simulate(population, name, arguments.runs, rng)
            mean = risks.mean(axis=1)
            error = risks.std(axis=1, ddof=1) / np.sqrt(arguments.runs)
            held, worst = bool((mean <= ALPHA + 3 * error).all()), int(np.argmax(mean))
            shown = " ".join(f"{each:.0%}" for each in shares.mean(axis=1)[:6])
            print(
                f"{population.name:<27} {name:<27} {mean[worst]:.5f} ± {error[worst]:.5f}  "
                f"{worst + 1:>4} {'yes' if held else 'NO':<5} {shown} … {shares[-1].mean():.0%}",
                flush=True,
            )
            good &= held or name not in RIGHT
            if name in broke:
                broke[name] |= not held
    print("Every right row held, each wrong one broke." if good and all(broke.values()) else "OFF.")
    return 0 if good and all(broke.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
