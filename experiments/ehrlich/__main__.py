"""Run the experiment: `python -m experiments.ehrlich`, with `--quick` for a small one on a CPU.

`--resume` goes on from the checkpoints of a run that was stopped, and `--figures` draws tables and
figures again from `rounds.csv`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import harness
from experiments.ehrlich import checkpoint, pool, report
from experiments.ehrlich import start as starts
from experiments.ehrlich.loop import Run


def prepare(settings: Mapping[str, Any], folder: Path, seed: int) -> dict[str, float]:
    """The safe policy of one seed, unless it is there already."""
    path = folder / f"start-{seed}.pt"
    if not path.exists():
        starts.save(starts.prepare(settings, seed), path)
    return starts.load(settings, path).report


def run(
    settings: Mapping[str, Any], folder: Path, until: float, family: str, alpha: float, seed: int
) -> list[dict[str, Any]]:
    """All rounds of one run, or as many as fit; the rows that it has so far."""
    place = folder / f"{family}-{alpha}-{seed}"
    table = checkpoint.table(place)
    if len(table) > settings["rounds"]:
        return table
    start = starts.load(settings, folder / f"start-{seed}.pt")
    one = checkpoint.resume(Run.begin(start, settings, family, alpha, seed), place)
    while len(one.table) <= settings["rounds"] and time.time() < until:
        one.step()
        checkpoint.save(one, place)
    if len(one.table) > settings["rounds"]:
        checkpoint.finish(place)
    return one.table


def main(arguments: Sequence[str] | None = None) -> None:
    """The whole experiment."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--figures", action="store_true")
    given, rest = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)
    task = harness.begin(__file__, rest)
    if not given.figures:
        _run_all(task, resume=given.resume)
    report.write(task, report.read(task.out / "rounds.csv"))
    if not given.figures:
        task.close()


def _run_all(task: harness.Task, *, resume: bool) -> None:
    """Every seed's safe policy, then every run, each in a process of its own."""
    folder = task.out / "checkpoints"
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(task.settings)
    until = task.started + settings["seconds"] if settings["seconds"] else float("inf")
    seeds, workers = settings["seeds"], settings["workers"]
    safe = list(pool.each(workers, prepare, [(settings, folder, seed) for seed in seeds]))
    old = report.read(task.out / "safe.csv") if resume else []
    task.table("safe", report.merged(old, safe, ("seed",)))
    jobs = [
        (settings, folder, until, family, alpha, seed)
        for seed in seeds
        for family, alphas in (("clip", settings["alphas"]), ("mix", settings["mix_alphas"]))
        for alpha in alphas
    ]
    rows: list[dict[str, Any]] = []
    for done in pool.each(workers, run, jobs):
        if done:
            print(report.line(done[-1]), flush=True)
        rows += [{key: row.get(key, np.nan) for key in report.COLUMNS} for row in done]
    old = report.read(task.out / "rounds.csv") if resume else []
    task.table("rounds", report.merged(old, rows, ("family", "alpha", "seed", "round")))


if __name__ == "__main__":
    main()
