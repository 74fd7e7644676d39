"""Load figures of the controller: a million observed rows of ten rounds in SQLite.

python -m benchmarks.rounds

`begin` is measured against the same calibration by hand: the same rows, policies and numbers of
draws, from arrays in memory, through the public functions. Warm is the process that has run all
along; cold is one that opens the store and has to read it.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tether
from tether import report

ROWS, ROUNDS, BATCH = 1_000_000, 10, 1_000
MAX_SHOW_SECONDS = 2.0
"""How long `tether status` and `tether report` may take at a million rows."""
SAFE, ALPHA = tether.Gaussian(0.0, 1.0), 0.1
POLICIES = {f"round {k}": tether.Gaussian(0.3 + 0.07 * k, 0.9) for k in range(2, ROUNDS + 3)}
"""What an optimizer might have come up with, by the names that rounds go by."""


def losses_of(actions: np.ndarray) -> np.ndarray:
    return (actions > 1.5).astype(float)


def opened(store: Path) -> tether.Controller:
    return tether.Controller(SAFE, alpha=ALPHA, store=store, alarm_risk=0.999, policies=POLICIES)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def best(work: Callable[[], Any], times: int = 3) -> float:
    return min(timed(work)[0] for _ in range(times))


def filled(store: Path, rows: int, rng: np.random.Generator) -> tuple[tether.Controller, float]:
    """A run of ten rounds whose losses have all come, and how long it took to make it."""
    start, run = time.perf_counter(), opened(store)
    for number in range(1, ROUNDS + 1):
        begun = run.begin(POLICIES.get(f"round {number}"))
        for _ in range(4):
            taken = begun.act(rows // ROUNDS // 4, rng)
            begun.observe(taken.ids, losses_of(taken.actions), taken.actions)
    return run, time.perf_counter() - start


class Bare:
    """The calibration of the next round by hand, from the arrays that the run has in memory."""

    def __init__(self, run: tether.Controller) -> None:
        kept = run._rows.calibration
        self.actions, self.loss = run._rows.actions[kept], run._rows.losses[kept, 0]
        served, counts = np.unique(run._rows.served[kept], return_counts=True)
        policies = [run._registry.policy(int(each)) for each in served]
        self.mixture, self.share = tether.Mixture(policies, counts), counts[0] / counts.sum()

    def __call__(self, optimized: Any) -> tether.Calibration:
        """Score every row, draw proposals, calibrate."""
        rng, draws = np.random.default_rng(0), min(len(self.actions), 100_000)
        log = tether.make_log(
            SAFE,
            optimized,
            None,
            self.actions,
            self.loss,
            logged_by=self.mixture,
            safe_share=self.share,
        )
        drawn = tether.make_proposals(SAFE, optimized, None, draws, rng, logged_by=self.mixture)
        return tether.calibrate(log, drawn, alpha=ALPHA)


def acting(run: tether.Controller, rng: np.random.Generator) -> tuple[float, float, float]:
    """Seconds a row, in batches: of `act`, of the bare policy's draws, and of `observe`."""
    begun, spent = run.round, {"act": [], "sample": [], "observe": []}
    for _ in range(30):
        seconds, taken = timed(lambda: begun.act(BATCH, rng))
        spent["act"].append(seconds)
        spent["sample"].append(timed(lambda: begun.policy.sample(BATCH, rng))[0])
        cost = losses_of(taken.actions)
        spent["observe"].append(timed(lambda: begun.observe(taken.ids, cost))[0])  # noqa: B023
    return tuple(float(np.median(each)) / BATCH for each in spent.values())


def line(name: str, figure: str, limit: float | None = None, value: float = 0.0) -> None:
    verdict = "" if limit is None else f"(at most {limit:g})  {'ok' if value <= limit else 'OVER'}"
    print(f"{name:<58} {figure:<34} {verdict}".rstrip(), flush=True)


def shown(store: Path, bare: float) -> None:
    """What `tether status` and `tether report` do, without the start of their process."""
    page = store.with_suffix(".html")
    work = {
        "status": lambda: tether.rounds.read_history(store),
        "report": lambda: report.write(tether.rounds.read_history(store), page, overwrite=True),
    }
    for name, task in work.items():
        spent = best(task)
        figure = f"{spent:.2f} s, {spent / bare:.2f} × by hand"
        line(f"{name}, beside a calibration", figure, MAX_SHOW_SECONDS, spent)


def cold(store: Path) -> None:
    """In a process of its own: open the store, begin a round, observe."""
    opening, run = timed(lambda: opened(store))
    beginning, begun = timed(lambda: run.begin(POLICIES[f"round {ROUNDS + 2}"]))
    rng = np.random.default_rng(1)
    taken = begun.act(BATCH, rng)
    observing, _ = timed(lambda: begun.observe(taken.ids, losses_of(taken.actions)))
    bare = best(lambda: Bare(run)(POLICIES[f"round {ROUNDS + 2}"]), 2)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    line("open the store", f"{opening:.2f} s")
    ratio = beginning / bare
    figure = f"{beginning:.2f} s, {ratio:.2f} × by hand"
    line("first begin of a process that was restarted", figure, 3, ratio)
    line("first observe", f"{observing:.2f} s")
    line("peak memory of that process", f"{most:.2f} GiB")


def main(rows: int = ROWS) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "run.db"
        run, making = filled(store, rows, rng)
        size = store.stat().st_size / 2**20
        line(f"{rows:,} rows of {ROUNDS} rounds, made", f"{making:.0f} s, {size:.0f} MiB")
        optimized = POLICIES[f"round {ROUNDS + 1}"]
        run.training_rows()  # what an optimizer asked for, so that rows are in memory
        bare = best(lambda: Bare(run)(optimized))
        spent, _ = timed(lambda: run.begin(optimized))
        line(
            f"begin, {rows:,} rows, {ROUNDS} past rounds",
            f"{spent:.2f} s, {spent / bare:.2f} × by hand",
            3,
            spent / bare,
        )
        act, sample, observe = (1e6 * each for each in acting(run, rng))
        line(
            f"act, in batches of {BATCH:,}, beside the policy's draws",
            f"{act - sample:.1f} µs a row ({sample:.2f} µs are draws)",
            100,
            act - sample,
        )
        line(f"observe, in batches of {BATCH:,}", f"{observe:.1f} µs a row")
        run.close()
        shown(store, bare)
        command = [sys.executable, "-m", "benchmarks.rounds", "--cold", str(store)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--cold", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold is None:
        main(arguments.rows)
    else:
        cold(arguments.cold)
