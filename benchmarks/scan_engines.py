"""What DuckDB and Polars take for the table of bins of a log, in units of a bare scan.

Losses of zero and one are grouped by loss, others by the size of their amounts; both are measured.

Processor time in one process, each query once before it is measured, the smallest of three runs.
`python -m benchmarks.scan_engines --rows 1e7` writes a log to a folder that is removed afterwards.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.scan import write_world

REPEATS = 3
ENGINE_LIMIT = 4.0
"""The most that the table of bins may cost, in bare scans by the same engine."""


def seconds(work: Callable[[], Any]) -> float:
    """The least processor time of several runs, after one that is not counted."""
    work()
    taken = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def measure(folder: Path) -> dict[str, tuple[float, float, float, float]]:
    """For each engine: a bare scan, the tables of zeros and ones and of any losses, and all."""
    import duckdb
    import narwhals as nw
    import polars

    import tether
    from tether.control.constraint import Constraint
    from tether.control.parts.ratio_bins import Bins
    from tether.control.parts.term_kernels import BinRows
    from tether.scan import engine_groups, engine_two_losses

    pattern = f"{folder}/*.parquet"
    names = ("loss", "log_safe", "log_optimized")
    job = BinRows((Constraint("loss", 0.1, 1.0),), 0.0, Bins())
    sums = ", ".join(f"sum({name})" for name in names)

    def lazy() -> Any:
        return polars.scan_parquet(pattern)

    def bare_polars() -> Any:
        return lazy().select(polars.col(*names).sum()).collect(engine="streaming")

    engines: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "duckdb": (
            lambda: duckdb.sql(f"select {sums} from '{pattern}'").fetchall(),
            lambda: duckdb.read_parquet(pattern),
        ),
        "polars": (bare_polars, lazy),
    }
    found = {}
    for engine, (bare, frame) in engines.items():
        rows = engine_groups.short_columns(nw.from_native(frame()).lazy(), names)

        number = engine_groups.ranges(rows, 1.0).rows

        def table(rows: Any = rows, number: int = number) -> Any:
            return engine_two_losses.two_losses_table(rows, job.constraints[0], number)

        def any_losses(rows: Any = rows) -> Any:
            return engine_groups.bin_table(rows, job.constraints[0], 1.0)

        def first_pass(frame: Callable[[], Any] = frame) -> Any:
            return tether.Log.scan(frame(), context=None).reduce(job)

        found[engine] = (*map(seconds, (bare, table, any_losses, first_pass)),)
    return found


def main() -> None:
    """Print one line per engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    rows = int(parser.parse_args().rows)
    with tempfile.TemporaryDirectory() as name:
        write_world(Path(name), rows, contexts=False)
        for engine, (bare, table, other, whole) in measure(Path(name)).items():
            said = "ok" if table / bare <= ENGINE_LIMIT else "OVER"
            print(
                f"{engine}: {rows:,} rows, bare scan {bare:.2f} s; table of bins "
                f"{table / bare:.1f} x (at most {ENGINE_LIMIT:g})  {said}, "
                f"of any losses {other / bare:.1f} x, first pass {whole / bare:.1f} x"
            )


if __name__ == "__main__":
    main()
