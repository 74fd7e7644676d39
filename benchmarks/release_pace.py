"""How many steps a release takes, and how many releases exceed what they promise.

`python -m benchmarks.release_pace` simulates releases at 0.02, with 2,000 rows of an old system of
risk 0.01, for new systems of known risk, and prints four tables:

1. The pace: in which step the share is first above 90 %, in half of the releases and in nine of
   ten, by the number of keys per step; with `Guardrail(promise=0.02)`, which holds on average over
   releases, and with `confidence=0.95`. No loss is missing and all keys are new, so it is the
   fastest that a release can be.
2. Outcomes under way: the same with 1,000 keys per step, where a part of the outcomes comes only
   in the next step, with a promise and `wait` 0 and 1.
3. Falls: the part of the releases whose share falls by more than 20 points within 14 steps, and
   the first shares of one of them, with a promise and `wait` 0 and 1. No outcome comes later than
   that.
4. This release: the part of the releases in which the risk of some step exceeds 0.02, for both, and
   the mean over releases, which is what the promise is about.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.release_worlds import Procedure, World, confident, simulate, windowed

PROMISE, REACHED, MOST_STEPS = 0.02, 0.9, 100
KEYS_PER_STEP = (100, 300, 1_000, 3_000, 10_000, 100_000)
NEW_RISKS = (0.005, 0.01, 0.015)
LATE = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""The part of a step's outcomes that are under way when it ends."""
STEPS_OF_FALLS, STEPS_SHOWN, FALL = 14, 8, 0.2
HARMFUL_RISKS, STEPS_LOOKED_AT = (0.03, 0.2, 1.0), 12


def promised(wait: int = 0) -> Procedure:
    """The share of each release, with a promise."""
    return windowed("exact", wait, promise=PROMISE)


def steps_needed(shares: np.ndarray, part: float) -> int | None:
    """The step by which this part of the releases has reached the share; None if too few do."""
    has = shares >= REACHED
    first = np.where(has.any(axis=0), has.argmax(axis=0) + 1, len(shares) + 1)
    needed = int(np.quantile(first, part, method="inverted_cdf"))
    return None if needed > len(shares) else needed


def shown(steps: int | None) -> str:
    return f"over {MOST_STEPS}" if steps is None else str(steps)


def pace(world: World, procedure: Procedure, runs: int) -> str:
    """The steps that half of the releases and nine of ten need."""
    shares = simulate(world, procedure, runs, np.random.default_rng(world.keys))[0]
    return " / ".join(shown(steps_needed(shares, part)) for part in (0.5, 0.9))


def table(first: Sequence[str], columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown, row by row."""
    print("| " + " | ".join([*first, *columns]) + " |")
    print("| --- " * (len(first) + len(columns)) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def rows_of_pace(runs: int) -> Iterable[Sequence[str]]:
    for name, procedure in ASKED.items():
        for keys in KEYS_PER_STEP:
            worlds = [
                World("", risk, alpha=PROMISE, keys=keys, steps=MOST_STEPS) for risk in NEW_RISKS
            ]
            yield name, f"{keys:,}", *(pace(each, procedure, runs) for each in worlds)


def rows_of_late_outcomes(runs: int) -> Iterable[Sequence[str]]:
    for wait in (0, 1):
        for late in LATE:
            worlds = [
                World("", risk, alpha=PROMISE, steps=MOST_STEPS, late=(late, late))
                for risk in NEW_RISKS
            ]
            yield f"{wait}", f"{late:.1%}", *(pace(each, promised(wait), runs) for each in worlds)


def rows_of_falls(runs: int) -> Iterable[Sequence[str]]:
    for wait in (0, 1):
        found = []
        for risk in NEW_RISKS:
            world = World("", risk, alpha=PROMISE, steps=STEPS_OF_FALLS)
            found.append(
                simulate(world, promised(wait), runs, np.random.default_rng(world.keys))[0]
            )
        falls = [(np.diff(shares, axis=0) < -FALL).any(axis=0) for shares in found]
        example = "none falls"
        if falls[0].any():
            shares = found[0][:STEPS_SHOWN, falls[0].argmax()]
            example = " ".join(f"{share:.0%}" for share in shares)
        yield f"{wait}", *(f"{each.mean():.0%}" for each in falls), example


def rows_of_this_release(runs: int) -> Iterable[Sequence[str]]:
    for name, procedure in ASKED.items():
        cells = []
        for risk in HARMFUL_RISKS:
            world = World("", risk, alpha=PROMISE, steps=STEPS_LOOKED_AT)
            risks = simulate(world, procedure, runs, np.random.default_rng(world.keys))[1]
            exceeded, highest = (risks > PROMISE).any(axis=0).mean(), risks.mean(axis=1).max()
            cells.append(f"{exceeded:.1%} ({highest:.4f})")
        yield name, *cells


ASKED: dict[str, Procedure] = {"promise": promised(), "confidence": confident}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args(arguments).runs
    new = [f"new system {each:g}" for each in NEW_RISKS]
    table(("asked for", "keys per step"), new, rows_of_pace(runs))
    table(("wait", "outcomes under way"), new, rows_of_late_outcomes(runs))
    print(f"Releases whose share falls by more than {FALL:.0%} of all keys within")
    print(
        f"{STEPS_OF_FALLS} steps, and the first of them of a new system of risk {NEW_RISKS[0]:g}:\n"
    )
    table(("wait",), [*new, "one that falls"], rows_of_falls(runs))
    print(f"Releases with a risk above {PROMISE:g} in one of {STEPS_LOOKED_AT} steps, and the mean")
    print("over all releases of the risk in the step where that is highest:\n")
    harmful = [f"new system {each:g}" for each in HARMFUL_RISKS]
    table(("asked for",), harmful, rows_of_this_release(runs))


if __name__ == "__main__":
    main()
