"""Run the experiment: `python -m experiments.ehrlich`, with `--quick` for a small one on a CPU.

`--resume` goes on from the checkpoints of a run that was stopped, and `--figures` draws tables and
figures again from `rounds.csv`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import harness
from experiments.ehrlich import pool, report
from experiments.ehrlich.arms import ARMS, planned
from experiments.ehrlich.jobs import prepare, run

WHICH = ("seeds", *(f"{arm}_alphas" for arm in ARMS), "rounds", "workers", "seconds", "device")
"""Settings that say which runs are made, and how far and where, but not what they are."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The whole experiment."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--figures", action="store_true")
    given, rest = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)
    task = harness.begin(__file__, rest)
    if not given.figures:
        _run_all(task, resume=given.resume)
    rows = report.read(task.out / "rounds.csv")
    if not rows:
        sys.exit("no round was finished: go on with --resume, and more seconds")
    report.write(task, rows)
    if not given.figures:
        task.close()


def _run_all(task: harness.Task, *, resume: bool) -> None:
    """Every seed's safe policy, then every run, in as many processes as there are workers."""
    folder = task.out / "checkpoints"
    if not resume:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    settings = dict(task.settings)
    _same(settings, folder / "settings.json")
    until = task.started + settings["seconds"] if settings["seconds"] else float("inf")
    seeds, workers = settings["seeds"], settings["workers"]
    safe = list(pool.each(workers, prepare, [(settings, folder, seed) for seed in seeds]))
    old = report.read(task.out / "safe.csv") if resume else []
    task.table("safe", report.merged(old, safe, ("seed",)))
    jobs = [(settings, folder, until, arm, alpha, seed) for arm, alpha, seed in planned(settings)]
    rows: list[report.Row] = []
    for done in pool.each(workers, run, jobs):
        if done:
            print(report.line(done[-1]), flush=True)
        rows += [{key: row.get(key, np.nan) for key in report.COLUMNS} for row in done]
    old = report.read(task.out / "rounds.csv") if resume else []
    rows = report.merged(old, rows, ("arm", "alpha", "seed", "round"))
    if rows:
        task.table("rounds", rows)


def _same(settings: dict[str, Any], path: Path) -> None:
    """Refuse to go on with runs that were begun with other settings."""
    kept = {key: value for key, value in settings.items() if key not in WHICH}
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        other = sorted(key for key in kept if before.get(key) != kept[key])
        if other:
            sys.exit(f"{path.parent} has runs with other settings: {', '.join(other)}")
    path.write_text(json.dumps(kept, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
