"""Complete runs whose rounds begin from calibration jobs: decisions, and risks beside alpha.

python -m benchmarks.jobs_validity --runs 60

The worlds are those of `benchmarks.rounds_validity`. Each run has a round of the safe policy and
three of policies that an optimizer learned, and is made in several ways:

- in memory, by `begin(policy)`;
- from jobs, by `export_calibration` and `begin(policy, job=job)`, which must decide the same;
- from jobs, with rows and losses that arrive between the export and the begin;
- from jobs, with large losses that are known only after the begin, and count as the bound;
- the same, wrong on purpose: they are left out, as if they were missing at random.

The last two are made where losses are zero or one. The wrong way must break alpha in some world: in
that of contexts its harm is small.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import tether
from benchmarks.rounds_validity import open_run
from benchmarks.rounds_worlds import World, all_worlds
from tether.rounds import export_calibration

RUNS, ROUNDS, ROWS, LATE_ROWS = 100, 3, 150, 50
"""Rounds after the first, rows of a round, and rows that arrive late."""
TOLERANCE = 1e-10
"""How far log betas of the two ways may be apart."""

Begin = Callable[[tether.Controller, World, Any, np.random.Generator, Path], Any]
"""Begins a round with a policy; rows may be added to the present one first."""


def act(
    run: tether.Controller,
    world: World,
    rows: int,
    rng: np.random.Generator,
    *,
    harm_is_late: bool = False,
) -> tuple[Any, Any, Any]:
    """Take actions of the present round and observe them; what is left to be observed later."""
    taken = run.round.act(world.arrive(rows, rng), rng)
    losses, rewards = world.outcome(taken.contexts, taken.actions, rng)
    late = harm_is_late & (losses >= world.bound / 2)
    run.observe(taken.ids[~late], losses[~late], rewards[~late])
    return taken.ids[late], losses[late], rewards[late]


def in_memory(run: Any, world: World, optimized: Any, rng: Any, folder: Path) -> Any:
    """The ordinary way."""
    return run.begin(optimized)


def from_job(run: Any, world: World, optimized: Any, rng: Any, folder: Path) -> Any:
    """An export, and a round from it."""
    return run.begin(optimized, job=export_calibration(run, optimized, folder / "job"))


def from_job_with_late_rows(run: Any, world: World, optimized: Any, rng: Any, folder: Path) -> Any:
    """An export, more rows of the present round, and a round from the export."""
    job = export_calibration(run, optimized, folder / "job")
    act(run, world, LATE_ROWS, rng)
    return run.begin(optimized, job=job)


WAYS: dict[str, tuple[Begin, int, str]] = {
    "in memory": (in_memory, ROWS, "wait"),
    "from jobs": (from_job, ROWS, "wait"),
    "jobs, late rows": (from_job_with_late_rows, ROWS - LATE_ROWS, "wait"),
    "jobs, late harm": (from_job, ROWS, "worst_case"),
    "left out (wrong)": (from_job, ROWS, "exclude"),
}
"""How rounds begin, how many rows they have before, and how missing losses are treated."""


def one_run(world: World, alpha: float, seed: int, way: str) -> np.ndarray:
    """Risk, promise and log beta of each round."""
    (begin, rows, missing), rng, found = WAYS[way], np.random.default_rng([seed, 0]), []
    with open_run(world, alpha, seed, missing=missing) as run:
        run.begin()
        for _ in range(ROUNDS):
            late = act(run, world, rows, rng, harm_is_late=missing != "wait")
            optimized = world.improve(run.training_rows())
            with tempfile.TemporaryDirectory() as folder:
                begun = begin(run, world, optimized, rng, Path(folder))
            if len(late[0]):
                run.observe(*late)
            calibration = begun.calibration
            risk, _ = world.expected(begun.policy)
            found.append((risk, calibration.promise, calibration.log_beta))
    return np.array(found)


def some_runs(world: World, alpha: float, seeds: range) -> dict[str, np.ndarray]:
    """Runs × rounds × measures, by the way in which rounds begin."""
    return {
        way: np.stack([one_run(world, alpha, seed, way) for seed in seeds])
        for way in WAYS
        if WAYS[way][2] == "wait" or world.bound == 1
    }


def difference(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference of log betas; equal infinite ones do not differ."""
    one, other = first[:, :, 2], second[:, :, 2]
    same = one == other
    return float(np.abs(np.where(same, 0.0, one) - np.where(same, 0.0, other)).max())


def held(runs: np.ndarray, alpha: float) -> np.ndarray:
    """Rounds whose mean risk is within three standard errors of alpha."""
    risk = runs[:, :, 0]
    return risk.mean(axis=0) <= alpha + 3 * risk.std(axis=0, ddof=1) / np.sqrt(len(risk))


def shown(name: str, alpha: float, way: str, runs: np.ndarray) -> str:
    """One line: mean risk and promise of each round."""
    risk, promise = runs[:, :, 0], runs[:, :, 1]
    error = risk.std(axis=0, ddof=1) / np.sqrt(len(risk))
    cells = (
        f"{risk[:, k].mean():.4f} ± {error[k]:.4f} ({promise[:, k].mean():.3f})"
        for k in range(risk.shape[1])
    )
    verdict = "yes" if held(runs, alpha).all() else "NO"
    return f"{name:<24} {alpha:>5g}  {way:<18} {'  '.join(cells)}  {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    begun, good, step = time.perf_counter(), True, 10
    wrong: list[bool] = []  # whether the wrong way broke alpha, in each world that has it
    cases = [(each, each.alphas[0]) for each in all_worlds() if given.only in each.name]
    seeds = [range(k, min(k + step, given.runs)) for k in range(0, given.runs, step)]
    title = "  ".join(f"{f'round {k}: risk ± se (promise)':<24}" for k in range(2, 2 + ROUNDS))
    print(f"{'world':<24} {'alpha':>5}  {'rounds begin':<18} {title}  held")
    with ProcessPoolExecutor(given.workers) as pool:
        asked = [[pool.submit(some_runs, *case, each) for each in seeds] for case in cases]
        for (world, alpha), pieces in zip(cases, asked, strict=True):
            found = [piece.result() for piece in pieces]
            runs = {way: np.concatenate([each[way] for each in found]) for way in found[0]}
            for way, each in runs.items():
                print(shown(world.name, alpha, way, each), flush=True)
                holds = bool(held(each, alpha).all())
                if "wrong" in way:
                    wrong.append(not holds)
                else:
                    good &= holds
            apart = difference(runs["in memory"], runs["from jobs"])
            moved = np.isfinite(runs["from jobs"][:, :, 2]).mean()
            good &= apart <= TOLERANCE and moved > 0.3
            print(f"{'':<24} log betas in memory and from jobs differ by at most {apart:.1e}")
    print(f"\n{given.runs} runs, {time.perf_counter() - begun:.0f} s.")
    good &= any(wrong) or not wrong
    broke = f", and the wrong way broke alpha in {sum(wrong)} of {len(wrong)} worlds"
    print(f"All as promised{broke if wrong else ''}." if good else "SOMETHING IS OFF.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
