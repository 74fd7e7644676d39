"""What a calibration of a log in files costs, in bare scans of the same files, and its memory.

Each measurement runs in a fresh process: processor time without start-up, and the private memory at
its peak. A bare scan decodes the same columns and looks at nothing. One thread computes, beside
those that decode: two of them on cores that share their units take a third more.

    python -m benchmarks.scan --rows 1e7 1e8
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

ROWS_PER_FILE, ACTIONS = 1_000_000, 4
LIMITS = {"clip": (5.0, 300.0), "mix": (5.0, 300.0), "tables": (np.inf, np.inf)}
"""The most bare scans, and the most private memory in megabytes."""


def write(folder: Path, rows: int, what: str) -> None:
    """Write a log of Gaussian actions, or of a few actions with tables, in many files."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        count = min(ROWS_PER_FILE, rows - start)
        if what == "tables":
            optimized = rng.normal(size=(count, ACTIONS)) + np.eye(1, ACTIONS)
            optimized -= np.log(np.exp(optimized).sum(axis=1, keepdims=True))
            action = rng.integers(0, ACTIONS, count)
            safe = np.full(count, -np.log(ACTIONS))
            columns: dict[str, Any] = {"loss": (action == 0) & (rng.random(count) < 0.6)}
            columns |= {"log_safe": safe, "log_optimized": optimized[np.arange(count), action]}
            columns |= {f"log_safe_all_{k}": safe for k in range(ACTIONS)}
            columns |= {f"log_optimized_all_{k}": optimized[:, k] for k in range(ACTIONS)}
        else:
            a = rng.normal(size=count)
            columns = {"loss": (a > 1.5) * 1.0, "log_safe": -(a**2) / 2}
            columns["log_optimized"] = -((a - 1) ** 2) / 2
        parquet.write_table(pa.table(columns), folder / f"part-{number:05d}.parquet")


def private_memory() -> float:
    """The private memory of this process, in megabytes."""
    told = Path("/proc/self/smaps_rollup").read_text().partition("Private_Dirty:")[2]
    return int(told.split()[0]) / 1024


def run(what: str, folder: str, *, bare: bool) -> None:
    import tether

    stated = {} if what == "tables" else {"context": None}
    log = tether.Log.scan(folder, **stated, max_ratio=1e9 if what == "mix" else None)
    if bare:
        return deque(log.rows.batches(), maxlen=0).clear()
    assert tether.calibrate(log, alpha=0.2, family="mix" if what == "mix" else "clip").exists


def measure(what: str, folder: str, bare: bool) -> tuple[float, float]:
    """Seconds and megabytes of one thing, after the same on a few rows: imports do not count."""
    with tempfile.TemporaryDirectory() as small:
        write(Path(small), 1000, what)
        run(what, small, bare=bare)
    peak, watcher, done = [private_memory()], [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], private_memory())
            watcher[0] = time.thread_time()

    thread = threading.Thread(target=watch)
    thread.start()
    start = time.process_time()
    run(what, folder, bare=bare)
    spent = time.process_time() - start - watcher[0]
    done.set()
    thread.join()
    return spent, max(peak[0], private_memory())


def in_fresh_process(*arguments: object) -> tuple[float, float]:
    script = f"from benchmarks.scan import measure; print(measure{arguments})"
    command = ["env", "TETHER_THREADS=1", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return ast.literal_eval(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", type=float, default=[1e6, 1e7])
    given, kept = parser.parse_args(), True
    for rows in map(int, given.rows):
        for what in LIMITS:
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder), rows, what)
                bare, _ = min(in_fresh_process(what, folder, True) for _ in range(2))
                found, megabytes = in_fresh_process(what, folder, False)
            good = found / bare <= LIMITS[what][0] and megabytes <= LIMITS[what][1]
            kept &= good
            line = f"{rows:.0e} rows, {what:<7} bare scan {rows / bare / 1e6:5.1f} M rows/s; "
            line += f"calibration {found / bare:5.1f} bare scans, {megabytes:.0f} MB"
            print(f"{line}  {'ok' if good else 'OVER'}", flush=True)
    return kept


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
