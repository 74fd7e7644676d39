"""What a calibration of a log larger than memory costs, in units of a bare scan of its files.

Each measurement runs in a fresh process: processor time without start-up, the number of passes over
the rows, and the private memory at its peak. `python -m benchmarks.scan --rows 1e7 1e8` compares
two sizes; files are written to a folder that is removed afterwards. `--claim-rows 1e7 1e8` does the
same for the threshold of gCRC on claims.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROWS_PER_FILE = 1_000_000
ROWS_OF_START_UP = 1_000
ACTIONS = 4
CLAIMS_PER_ITEM = 10
KERNEL_LIMIT = 5.0
"""The most that clip and mix may cost, in bare scans of the same files."""
MEMORY_LIMIT, MEMORY_GROWTH = 300.0, 1.1
"""The most private memory, in megabytes, and its growth from the smallest to the largest log."""
GROWTH_FROM = 10_000_000
"""The limit of the growth counts from so many rows on: `--rows 1e7 1e8`."""
PASSES_LIMIT = 6
"""The most passes over the rows for the beta of a log with contexts."""


def write_world(folder: Path, rows: int, *, contexts: bool, binary: bool = True) -> None:
    """Write a log of Gaussian actions, or of finitely many actions with tables, in many files."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        count = min(ROWS_PER_FILE, rows - start)
        if contexts:
            safe = np.full((count, ACTIONS), -np.log(ACTIONS))
            optimized = rng.normal(size=(count, ACTIONS))
            optimized[:, 0] += 1
            optimized -= np.log(np.exp(optimized).sum(axis=1, keepdims=True))
            action = rng.integers(0, ACTIONS, count)
            taken = np.arange(count), action
            columns: dict[str, Any] = {
                "loss": ((action == 0) & (rng.random(count) < 0.6)).astype(float),
                "log_safe": safe[taken],
                "log_optimized": optimized[taken],
            }
            for k in range(ACTIONS):
                columns[f"log_safe_all_{k}"] = safe[:, k]
                columns[f"log_optimized_all_{k}"] = optimized[:, k]
        else:
            actions = rng.normal(size=count)
            loss = (actions > 1.5).astype(float)
            columns = {
                "loss": loss if binary else (loss + rng.random(count)) / 2,
                "log_safe": -(actions**2) / 2,
                "log_optimized": -((actions - 1) ** 2) / 2,
            }
        parquet.write_table(pa.table(columns), folder / f"part-{number:05d}.parquet")


def write_claims(folder: Path, rows: int) -> None:
    """Write scored claims in many files, all claims of an item in one of them."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        count = min(ROWS_PER_FILE, rows - start)
        score = rng.random(count)
        columns = {
            "score": score,
            "label": rng.random(count) < 0.5 + score / 2,
            "item": (start + np.arange(count)) // CLAIMS_PER_ITEM,
        }
        parquet.write_table(pa.table(columns), folder / f"part-{number:05d}.parquet")


@dataclass(frozen=True)
class Count:
    """How many rows there are."""

    rows: int

    def merge(self, other: Count) -> Count:
        """Those of both."""
        return Count(self.rows + other.rows)


@dataclass(frozen=True)
class CountRows:
    """The bare scan: decode the columns, and look at nothing."""

    columns: tuple[str, ...]

    def partial(self, columns: Any) -> Count:
        """The rows of a part."""
        return Count(len(columns[self.columns[0]]))


class Counted:
    """A source that counts how often it is read."""

    def __init__(self, source: Any) -> None:
        self.source, self.names, self.passes = source, source.names, 0

    def reduce(self, kernel: Any) -> Any:
        """What the source returns."""
        self.passes += 1
        return self.source.reduce(kernel)


def private_memory() -> float:
    """The private memory of this process, in megabytes."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def _run(what: str, log: Any, folder: str) -> int:
    """Do one thing; how often it read the rows."""
    import tether
    from tether.scan import open_source

    if what == "bare scan":
        source = open_source(folder)
        source.reduce(CountRows(tuple(source.names or ())))
        return 1
    if what == "gcrc":
        source = Counted(open_source(folder))
        claims = tether.Claims.scan(source, scores="score", supported="label", items="item")
        assert tether.gcrc(claims, alpha=0.1).exists
        return source.passes
    found = tether.calibrate(log, alpha=0.2, family="mix" if what == "mix" else "clip")
    assert found.exists
    if what == "summary":
        found.summary()
    passes: int = log.passes
    return passes


def watched(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Processor seconds, the most private memory in megabytes meanwhile, and the result."""
    peak, spent_here, stop = [private_memory()], [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            peak[0] = max(peak[0], private_memory())
            spent_here[0] = time.thread_time()

    watching = threading.Thread(target=watch)
    watching.start()
    start = time.process_time()
    try:
        result = work()
        spent = time.process_time() - start - spent_here[0]  # without looking at the memory
        return spent, max(peak[0], private_memory()), result
    finally:
        stop.set()
        watching.join()


def measure(what: str, folder: str) -> dict[str, float]:
    """Run one thing in this process."""
    import tether
    from tether.scan import open_source

    names = open_source(folder).names
    if "item" in names:
        write, settings = write_claims, None
    else:
        contexts = "log_safe_all_0" in names
        write, settings = partial(write_world, contexts=contexts), {"context": None}
        if contexts:
            settings = {}
        if what == "mix":
            settings["max_ratio"] = 1e9

    def log_of(path: str) -> Any:
        return None if settings is None else tether.Log.scan(path, **settings)

    with tempfile.TemporaryDirectory() as small:
        # Imports and first calls are start-up, which does not count.
        write(Path(small), ROWS_OF_START_UP)
        _run(what, log_of(small), small)
    log = log_of(folder)
    spent, megabytes, passes = watched(lambda: _run(what, log, folder))
    return {"seconds": spent, "megabytes": megabytes, "passes": passes}


def in_fresh_process(what: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scan", "--measure", what, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(sizes: list[int], what_rows: str) -> bool:
    """Print the table of logs, of logs with contexts or of claims; whether limits are kept."""
    kept = True
    memory: list[float] = []
    kinds = {"plain": ("clip", "mix", "summary"), "contexts": ("clip",), "claims": ("gcrc",)}
    names = {"plain": "", "contexts": f", {ACTIONS} listed actions", "claims": " of claims"}
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            if what_rows == "claims":
                write_claims(Path(folder), rows)
            else:
                write_world(Path(folder), rows, contexts=what_rows == "contexts")
            bare = in_fresh_process("bare scan", Path(folder))
            name = f"{rows:.0e} rows{names[what_rows]}"
            print(
                f"{name:<28} bare scan {rows / bare['seconds'] / 1e6:6.1f} M rows per second",
                flush=True,
            )
            for what in kinds[what_rows]:
                found = in_fresh_process(what, Path(folder))
                ratio = found["seconds"] / bare["seconds"]
                good, limits = found["megabytes"] <= MEMORY_LIMIT, f"{MEMORY_LIMIT:g} MB"
                if what_rows == "contexts":
                    good &= found["passes"] <= PASSES_LIMIT
                    limits += f", {PASSES_LIMIT} passes"
                elif what in ("clip", "mix"):
                    good &= ratio <= KERNEL_LIMIT
                    limits += f", {KERNEL_LIMIT:g} scans"
                if what == kinds[what_rows][0]:
                    memory.append(found["megabytes"])
                kept &= good
                print(
                    f"  {what:<10} {ratio:6.1f} scans, {found['passes']:.0f} passes, "
                    f"{found['megabytes']:.0f} MB private (at most {limits})  "
                    f"{'ok' if good else 'OVER'}",
                    flush=True,
                )
    if len(memory) > 1:
        growth = memory[-1] / memory[0]
        said = ""
        if sizes[0] >= GROWTH_FROM:
            good = growth <= MEMORY_GROWTH
            kept &= good
            said = f" (at most {MEMORY_GROWTH:g})  {'ok' if good else 'OVER'}"
        print(f"  private memory of the largest over the smallest log: {growth:.2f}{said}")
    return kept


def main() -> bool:
    """Print the tables; whether all limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", type=float, default=[1e6, 1e7])
    parser.add_argument("--context-rows", nargs="*", type=float, default=[1e5])
    parser.add_argument("--claim-rows", nargs="*", type=float, default=[1e6])
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FOLDER"))
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure)))
        return True
    asked = {"plain": given.rows, "contexts": given.context_rows, "claims": given.claim_rows}
    kept = [table([int(rows) for rows in sizes], kind) for kind, sizes in asked.items()]
    return all(kept)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
