"""What DuckDB and Polars take for a log, in units of a bare scan of the same files by the engine.

The first pass validates all rows and makes the table of bins; the whole is the beta of clip, in two
passes. Losses are zero or one, or any numbers.

Processor time in one process, each once before it is measured, the smallest of several runs.
`python -m benchmarks.scan_engines --rows 1e7` writes logs to a folder that is removed afterwards.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scan import write_world

REPEATS = 5
ENGINE_LIMIT = 4.0
"""The most that the first pass may cost, in bare scans by the same engine."""
NAMES = ("loss", "log_safe", "log_optimized")


class Cost(NamedTuple):
    """Processor seconds of a bare scan, of the first pass and of a calibration."""

    bare: float
    first_pass: float
    calibration: float


def seconds(work: Callable[[], Any]) -> float:
    """The least processor time of several runs, after one that is not counted."""
    work()
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def measure(folder: Path, alpha: float) -> dict[str, Cost]:
    """What each engine takes for the files of a folder."""
    import duckdb
    import polars

    import tether
    from tether.control.constraint import Constraint
    from tether.control.parts.ratio_bins import Bins
    from tether.control.parts.term_kernels import BinRows

    pattern = f"{folder}/*.parquet"
    job = BinRows((Constraint("loss", alpha, 1.0),), 0.0, Bins())
    sums = ", ".join(f"sum({name})" for name in NAMES)

    def bare_duckdb() -> Any:
        return duckdb.sql(f"select {sums} from '{pattern}'").fetchall()

    def bare_polars() -> Any:
        bare = polars.scan_parquet(pattern).select(polars.col(*NAMES).sum())
        return bare.collect(engine="streaming")

    engines: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "duckdb": (bare_duckdb, lambda: duckdb.read_parquet(pattern)),
        "polars": (bare_polars, lambda: polars.scan_parquet(pattern)),
    }
    found = {}
    for engine, (bare, frame) in engines.items():

        def first_pass(frame: Callable[[], Any] = frame) -> Any:
            return tether.Log.scan(frame(), context=None).reduce(job)

        def calibration(frame: Callable[[], Any] = frame) -> Any:
            log = tether.Log.scan(frame(), context=None)
            return tether.calibrate(log, alpha=alpha, test_weight="analytic")

        found[engine] = Cost(*map(seconds, (bare, first_pass, calibration)))
    return found


def main() -> bool:
    """Print one line per engine and kind of losses; whether the limit is kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    rows, kept = int(parser.parse_args().rows), True
    for binary in (True, False):
        with tempfile.TemporaryDirectory() as name:
            write_world(Path(name), rows, contexts=False, binary=binary)
            for engine, cost in measure(Path(name), alpha=0.2 if binary else 0.35).items():
                scans = cost.first_pass / cost.bare
                kept &= scans <= ENGINE_LIMIT
                losses = "zero or one" if binary else "any"
                print(
                    f"{engine}: {rows:,} rows, losses {losses}, bare scan {cost.bare:.2f} s; "
                    f"first pass {scans:.1f} x "
                    f"(at most {ENGINE_LIMIT:g})  {'ok' if scans <= ENGINE_LIMIT else 'OVER'}, "
                    f"calibration {cost.calibration / cost.bare:.1f} x",
                    flush=True,
                )
    return kept


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
