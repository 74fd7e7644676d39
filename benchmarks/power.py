"""How much of the gain each method keeps at the same alpha: `make power`.

For every world, number of calibration rows n (with as many training rows) and method, over many
runs: the true risk of what is deployed beside alpha and the mean stated promise; the gain in reward
over the safe policy, as a share of the gain of clip at the best beta of true risk alpha, and as a
share of the gain of vetoing actions by their true loss; the share of logs on which no beta passes,
where the safe policy is served. In the world "rounds" n is the number of rows per round, and the
last of four rounds is reported. Numbers after ± are standard errors over runs. All methods of a run
share its rows, so the difference to plain clip, in points, has a standard error of its own.

Exits with 1 if a mean risk is above the mean promise by more than three standard errors.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.power_bounds import clip_oracle, veto_ceiling
from benchmarks.power_methods import METHODS, Run
from benchmarks.power_rounds import ROUND_METHODS, RoundsRun
from benchmarks.power_worlds import WORLDS, eight_actions

WORLDS_AND_ROUNDS = {**WORLDS, "rounds": eight_actions}
"""In the last one rows come from several rounds, and n is their number per round."""

ROWS = (50, 200, 1000)
ERRORS = 3.0
PROMISED = 40
"""In how many runs the stated promise is computed, which takes longer than calibration."""


@dataclass(frozen=True)
class Outcome:
    """One run of one method."""

    risk: float
    of_oracle: float
    of_ceiling: float
    exists: bool
    promise: float
    note: str


def run(world_name: str, rows: int, methods: Sequence[str], number: int) -> dict[str, Outcome]:
    """Every method on the rows of one run."""
    rng = np.random.default_rng([zlib.crc32(world_name.encode()), rows, number])
    world = WORLDS_AND_ROUNDS[world_name](rng)
    _, safe = world.population.outcome(world.population.table(world.safe))
    oracle, ceiling = _bounds(world_name, world)
    made = (RoundsRun if world_name == "rounds" else Run)(world, rows, rng)
    outcomes = {}
    for method in methods:
        deployed = getattr(made, method)()
        found, gain = deployed.found, deployed.reward - safe
        promise = found.promise if number < PROMISED and found.exists else np.nan
        outcomes[method] = Outcome(
            deployed.risk, gain / oracle, gain / ceiling, found.exists, promise, deployed.note
        )
    return outcomes


_KNOWN: dict[str, tuple[float, float]] = {}


def _bounds(name: str, world) -> tuple[float, float]:
    """Both reference gains; the biopsy world is another one in each run."""
    if name == "biopsy":
        return clip_oracle(world), veto_ceiling(world)
    if name not in _KNOWN:
        _KNOWN[name] = clip_oracle(world), veto_ceiling(world)
    return _KNOWN[name]


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Of the values that are known."""
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return (float(values.mean()) if len(values) else np.nan), np.nan
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def line(
    world: str, rows: int, method: str, runs: list[dict[str, Outcome]], alpha: float
) -> tuple[str, bool]:
    """One line of the table, and whether its risk is within the promise."""

    def column(name: str, of: str = method) -> np.ndarray:
        return np.array([getattr(each[of], name) for each in runs], dtype=float)

    risk, error = mean_and_error(column("risk"))
    promise, promise_error = mean_and_error(column("promise"))
    limit = alpha if np.isnan(promise) else promise
    kept = risk <= limit + ERRORS * np.hypot(error, np.nan_to_num(promise_error))
    gain, gain_error = mean_and_error(100 * column("of_oracle"))
    ceiling, ceiling_error = mean_and_error(100 * column("of_ceiling"))
    lead, lead_error = mean_and_error(100 * (column("of_oracle") - column("of_oracle", "clip")))
    notes = [each[method].note for each in runs]
    common = max(set(notes), key=notes.count)
    return (
        f"{world:<20}{rows:>6}  {method:<10}{risk:>8.4f} ± {error:.4f}{promise:>8.3f}"
        f"{gain:>7.0f} ± {gain_error:<4.1f}{lead:>+7.1f} ± {lead_error:<4.1f}"
        f"{ceiling:>6.0f} ± {ceiling_error:<4.1f}{1 - column('exists').mean():>6.0%}  {common}"
        f"{'' if kept else '  ABOVE THE PROMISE'}",
        kept,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--worlds", nargs="*", choices=list(WORLDS_AND_ROUNDS))
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    given = parser.parse_args()
    methods = tuple(dict.fromkeys(("clip", *given.methods)))
    print(
        f"{'world':<20}{'n':>6}  {'method':<10}{'risk':>8}{'':9}{'promise':>8}"
        f"{'% of clip oracle':>14}{'to clip':>9}{'% of veto':>14}{'no beta':>10}"
    )
    all_kept = True
    with ProcessPoolExecutor(given.processes) as pool:
        for world in given.worlds or WORLDS_AND_ROUNDS:
            alpha = WORLDS_AND_ROUNDS[world](np.random.default_rng(0)).alpha
            possible = [each for each in methods if world != "rounds" or each in ROUND_METHODS]
            for rows in given.rows:
                once = partial(run, world, rows, possible)
                runs = list(pool.map(once, range(given.runs), chunksize=5))
                for method in possible:
                    text, kept = line(world, rows, method, runs, alpha)
                    all_kept &= kept
                    print(text, flush=True)
    print(
        f"\n{given.runs} runs; as many training rows as calibration rows; gains are relative to "
        "the safe policy's reward.\nThe last column is the kind of loss model, or of candidate, "
        "that was used most often."
    )
    return 0 if all_kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
