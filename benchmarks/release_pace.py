"""How many steps a release takes: the share that it reaches, by the number of keys per step.

`python -m benchmarks.release_pace` simulates releases with `Guardrail(promise=0.02)` and 2,000 rows
of an old system of risk 0.01, for new systems of known risk, and prints in which step the share is
first above 90 %, in half of the releases and in nine of ten. No loss is missing and all keys are
new, so it is the fastest that a release can be.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.release_worlds import State, World, simulate
from tether.release import ArmCounts, Guardrail, ramp_share
from tether.release.calibration_window import LEAST_PART_OF_WINDOW
from tether.release.risk_bounds import expected_bound
from tether.release.share_formulas import exact_share

PROMISE, REACHED, MOST_STEPS = 0.02, 0.9, 100
KEYS_PER_STEP = (100, 300, 1_000, 3_000, 10_000, 100_000)
NEW_RISKS = (0.005, 0.01, 0.015)


def alpha_of(rows: int, losses: int) -> float:
    """The alpha that a promise leaves, given the rows of the old system."""
    none = {"loss": ArmCounts(0, 0.0)}
    old = {"loss": ArmCounts(rows, float(losses))}
    found = ramp_share({"loss": Guardrail(promise=PROMISE)}, old=old, new=none)
    return found.guardrails["loss"].alpha


def promised(state: State) -> np.ndarray:
    """The share of each release, as `ramp_share` with a promise computes it."""
    rows0, losses0 = state.start
    if "alpha" not in state.memory:
        known = {each: alpha_of(int(rows0[0]), each) for each in set(losses0.tolist())}
        state.memory["alpha"] = np.array([known[each] for each in losses0.tolist()])
    old_bound, alpha = expected_bound(rows0, losses0, 1.0), state.memory["alpha"]
    if not state.batches:
        state.memory["rows"] = none = np.zeros(len(rows0))
        return exact_share(none, none, old_bound, alpha)
    rows, losses = state.batches[-1].pending_as_bound(late=False)
    taken = rows >= LEAST_PART_OF_WINDOW * state.memory["rows"]
    state.memory["rows"] = np.where(taken, rows, state.memory["rows"])
    return np.where(taken, exact_share(rows, losses, old_bound, alpha), state.shares[-1])


def steps_needed(shares: np.ndarray, part: float) -> int | None:
    """The step by which this part of the releases has reached the share; None if too few do."""
    has = shares >= REACHED
    first = np.where(has.any(axis=0), has.argmax(axis=0) + 1, len(shares) + 1)
    needed = int(np.quantile(first, part, method="inverted_cdf"))
    return None if needed > len(shares) else needed


def shown(steps: int | None) -> str:
    return f"over {MOST_STEPS}" if steps is None else str(steps)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args(arguments).runs
    print("| keys per step | " + " | ".join(f"new system {each:g}" for each in NEW_RISKS) + " |")
    print("| --- " * (1 + len(NEW_RISKS)) + "|")
    for keys in KEYS_PER_STEP:
        cells = []
        for risk in NEW_RISKS:
            world = World("", risk, alpha=PROMISE, keys=keys, steps=MOST_STEPS)
            shares = simulate(world, promised, runs, np.random.default_rng(keys))[0]
            cells.append(" / ".join(shown(steps_needed(shares, part)) for part in (0.5, 0.9)))
        print(f"| {keys:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
