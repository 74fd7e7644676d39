"""The benchmark table: every figure is a ratio to something else in the same run.

Machines differ and are noisy; a ratio within one run says what a second would not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks import (
    calibration,
    export,
    gateway,
    release_load,
    rounds,
    rounds_growth,
    rounds_writers,
    sampling,
    scan,
    scan_engines,
    serve,
    thresholds,
)


def seconds(task: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs."""
    best = np.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - begun)
    return best


def time_import() -> None:
    """`import tether` in a fresh interpreter, less what an interpreter takes by itself."""

    def python(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5)

    spent = python("import tether") - python("pass")
    print(f"{'import tether':<58} {spent:>7.2f} s (at most 0.3)  {'ok' if spent < 0.3 else 'OVER'}")


def main() -> None:
    calibration.main()
    time_import()
    sampling.main()
    thresholds.main()
    scan.main()
    scan_engines.main()
    rounds.main()
    rounds_growth.main()
    export.main()
    release_load.main()
    rounds_writers.main()
    serve.main()
    gateway.main()
    from benchmarks import llm  # heavy

    llm.main()


if __name__ == "__main__":
    main()
