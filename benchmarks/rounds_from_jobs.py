"""A round that begins from a job, beside one that begins in memory: memory, time and beta.

python -m benchmarks.rounds_from_jobs --rows 1e5 1e6

Each is a process of its own that opens a copy of the same SQLite store, with rows of the safe
policy and of two rounds. Private memory is given beyond that of a process that only opened it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tether
from benchmarks.scan import private_memory, watched
from tether.rounds import CalibrationJob, export_calibration

ROWS_PER_CALL = 50_000


def opened(store: str) -> tether.Controller:
    """The run, as every process opens it."""
    settings = {"alpha": 0.2, "alarm_risk": 0.9, "max_silence": None, "deadline": 600.0}
    return tether.Controller(tether.Gaussian(0.0), store=store, **settings)


def policy_of(number: int) -> tether.Gaussian:
    return tether.Gaussian(0.3 * number, 0.9)


def make(store: str, rows: int) -> None:
    """A run of three rounds, of which the first is the safe policy's."""
    rng = np.random.default_rng(0)
    with opened(store) as run:
        for number in range(3):
            begun = run.begin(policy_of(number) if number else None)
            for start in range(0, rows // 3, ROWS_PER_CALL):
                taken = begun.act(min(ROWS_PER_CALL, rows // 3 - start), rng)
                run.observe(taken.ids, np.clip(taken.actions - 0.5, 0, 1))


def measure(what: str, store: str) -> dict[str, float]:
    """Do one thing in this process, which has just opened the store."""
    folder = Path(store).parent / "job"
    with opened(store) as run:
        before = private_memory()

        def work() -> Any:
            if what == "export":
                return export_calibration(run, policy_of(3), folder)
            if what == "begin from it":
                return run.begin(policy_of(3), job=CalibrationJob.read(folder))
            return run.begin(policy_of(3))

        spent, megabytes, result = watched(work)
    log_beta = float("nan") if what == "export" else result.calibration.log_beta
    return {"seconds": spent, "megabytes": megabytes - before, "log_beta": log_beta}


def in_fresh_process(what: str, store: Path, *rows: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.rounds_from_jobs", "--do", what, str(store), *rows]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(sizes: tuple[int, ...] = (100_000,)) -> None:
    memory: dict[str, list[float]] = {}
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            made, copy = Path(folder) / "made.db", Path(folder) / "copy.db"
            in_fresh_process("make", made, str(rows))
            print(f"a run of {rows:,} rows, {made.stat().st_size / 2**20:.0f} MiB stored")
            shutil.copy(made, copy)
            found = {"begin in memory": in_fresh_process("begin", copy)}
            for what in ("export", "begin from it"):
                found[what] = in_fresh_process(what, made)
            seconds = found["begin in memory"]["seconds"]
            for what, each in found.items():
                memory.setdefault(what, []).append(each["megabytes"])
                ratio = f"{each['seconds'] / seconds:5.2f} × begin in memory"
                print(f"  {what:<16} {each['megabytes']:7.0f} MB private, {ratio}", flush=True)
            betas = [each["log_beta"] for each in found.values()]
            difference = abs(betas[0] - betas[-1])
            verdict = "ok" if difference <= 1e-10 else "OVER"
            print(f"  difference of log beta {difference:.1e} (at most 1e-10)  {verdict}")
    if len(sizes) > 1:
        for what, each in memory.items():
            print(f"  {what}: {each[-1] / each[0]:.2f} × the memory of the smallest run")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e5])
    parser.add_argument("--do", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.do is None:
        main(tuple(int(each) for each in arguments.rows))
    elif arguments.do[0] == "make":
        make(arguments.do[1], int(arguments.do[2]))
        print("{}")
    else:
        print(json.dumps(measure(*arguments.do)))
