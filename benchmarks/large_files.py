"""Peak memory of `tether calibrate` on large files, over the size of the columns that it needs.

    python -m benchmarks.large_files            # 2 and 20 million rows
    python -m benchmarks.large_files 1000000

Each row is a fresh process. "reading" is reading alone; "calibrating" is the whole command with its
diagnostics, whose largest ratio `tether.cli.memory_limit.WORKING_FACTOR` must not be below.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tether.cli.memory_limit import WORKING_FACTOR

FIXED_BYTES = 96 * 2**20
"""What blocks of a file and batches of rows take, however many rows there are."""
NEEDED = ("loss", "log_safe", "log_optimized")
MEASURE = """
import contextlib, io, sys
from pathlib import Path
from tether.cli.app import app
from tether.cli.table_file import Wanted, read_columns
kind, path, small = sys.argv[1:]
def peak():  # not ru_maxrss, which a child process inherits from its parent
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
def work(path):
    if kind == "reading":
        return read_columns(Path(path), Wanted({names!r}, numbers={names!r}))
    with contextlib.redirect_stdout(io.StringIO()):
        options = ["--alpha", "0.12", "--no-context", "--max-rows", "1000000000"]
        app(["calibrate", path, *options], standalone_mode=False)
work(small)
before = peak()
kept = work(path)
print(peak() - before)
"""


def write_log(path: Path, rows: int, *, constant: bool) -> None:
    """A log with three columns that are needed and three that are not."""
    actions = np.zeros(rows) if constant else np.random.default_rng(0).normal(size=rows)
    columns = {
        "loss": (actions > 1.5).astype(float),
        "log_safe": -(actions**2) / 2,
        "log_optimized": -(((actions - 1) / 0.8) ** 2) / 2 - np.log(0.8),
    }
    columns |= {f"other_{k}": actions for k in range(3)}
    parquet.write_table(pa.table(columns), path)


def peak_ratio(kind: str, path: Path, small: Path, rows: int) -> float:
    code = MEASURE.replace("{names!r}", repr(NEEDED))
    command = [sys.executable, "-c", code, kind, str(path), str(small)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) / (8 * len(NEEDED) * rows)


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [2_000_000, 20_000_000]
    print(f"{'rows':>12} {'values':<10} {'file':>8} {'reading':>9} {'calibrating':>12}")
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder, "log.parquet"), Path(folder, "small.parquet")
        write_log(small, 1000, constant=False)
        for rows in sizes:
            for constant in (True, False):
                write_log(path, rows, constant=constant)
                ratios = [peak_ratio(kind, path, small, rows) for kind in ("reading", "calibrate")]
                fixed = FIXED_BYTES / (8 * len(NEEDED) * rows)
                held = ratios[0] <= 1.1 + fixed and ratios[1] <= WORKING_FACTOR + fixed
                verdict = "ok" if held else "OVER"
                kind = "constant" if constant else "normal"
                size = f"{path.stat().st_size / 1e6:.1f} MB"
                shown = f"{ratios[0]:>7.2f} × {ratios[1]:>10.2f} ×"
                print(f"{rows:>12,} {kind:<10} {size:>8} {shown}  {verdict}", flush=True)


if __name__ == "__main__":
    main()
