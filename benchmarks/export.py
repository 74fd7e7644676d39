"""Time and memory of export, verification, import and backup of a run, as figures.

python -m benchmarks.export

Each is measured in a process of its own. Memory is the largest resident set of that process; the
first line is that of the interpreter with its libraries, without pandas, which pyarrow loads too
where it is installed (50 MB).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tether

RUNS = ((18_400, 184), (67_500, 136), (1_000_000, 10))
"""Rows and rounds of the runs."""
MAX_MEMORY = 200
"""How many MB each of them may take."""

MEASURED = """
import sys, time
from tether.rounds import backup_run, export_run, import_run
from tether.rounds.store.import_run import check_export
begun = time.perf_counter()
{work}
spent = time.perf_counter() - begun
status = open("/proc/self/status").read()  # getrusage would show the parent's memory if larger
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
verdict = "ok" if peak <= {limit} else "OVER"
print(f"{{spent:8.2f}} s {{peak:8.0f}} MB (at most {limit})  {{verdict}}")
"""
WORK = {
    "nothing but imports": "pass",
    "export": "export_run('run.db', 'run.parquet')",
    "verify": "assert not check_export('run.parquet').findings",
    "import": "import_run('run.parquet', 'again.db')",
    "backup": "backup_run('run.db', 'copy.db')",
}


def filled(store: Path, rows: int, rounds: int) -> float:
    """A run whose losses have all come, in a few calls per round; how long it took."""
    begun, rng = time.perf_counter(), np.random.default_rng(0)
    policies = {
        f"round {k}": tether.Gaussian(0.3 + 0.5 * k / rounds, 0.9) for k in range(2, rounds + 1)
    }
    calls = 4 if rows // rounds >= 1_000 else 1
    options = {"alpha": 0.1, "alarm_risk": 0.999, "draws": 1_000}
    with tether.Controller(tether.Gaussian(0.0), store=store, **options) as run:
        for number in range(1, rounds + 1):
            current = run.begin(policies.get(f"round {number}"))
            for _ in range(calls):
                taken = current.act(rows // rounds // calls, rng)
                current.observe(taken.ids, (taken.actions > 1.5).astype(float), taken.actions)
    return time.perf_counter() - begun


def main(runs: tuple[tuple[int, int], ...] = RUNS) -> None:
    for rows, rounds in runs:
        with tempfile.TemporaryDirectory() as folder:
            spent = filled(Path(folder) / "run.db", rows, rounds)
            print(f"{rows:,} rows of {rounds} rounds, made in {spent:.0f} s")
            for name, work in WORK.items():
                command = [sys.executable, "-c", MEASURED.format(work=work, limit=MAX_MEMORY)]
                print(f"  {name:<24}", end=" ", flush=True)
                subprocess.run(command, check=True, cwd=folder)
            for name in ("run.db", "run.parquet"):
                size = (Path(folder) / name).stat().st_size / 2**20
                print(f"  {name:<24} {size:8.1f} MB", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=int, nargs=2, action="append", metavar=("ROWS", "ROUNDS"))
    given = parser.parse_args().run
    main(tuple(map(tuple, given)) if given else RUNS)
