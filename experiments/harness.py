"""What every experiment shares: its settings, where results go, how a table is written.

An experiment is a folder with `config.toml`, whose table `[quick]` overrides the settings above it
for `--quick`, and with `__main__.py`, which starts with `task = harness.begin(__file__)`.
"""

from __future__ import annotations

import argparse
import atexit
import csv
import os
import platform
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Task:
    """One run of an experiment: its settings, and the folder for its results."""

    name: str
    settings: Mapping[str, Any]
    quick: bool
    out: Path
    started: float
    shown: ExitStack = field(default_factory=ExitStack, repr=False)
    """What shows on a terminal that the experiment is running, until it is closed."""

    def __getitem__(self, key: str) -> Any:
        return self.settings[key]

    def table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Write rows as `name`.csv, one column a key; floats with six significant digits."""
        path = self.out / f"{name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
        return path

    def figure(self, name: str, figure: Any) -> Path:
        """Save a matplotlib figure as `name`.svg, the same bytes each time for the same picture."""
        import matplotlib as mpl

        path = self.out / f"{name}.svg"
        with mpl.rc_context({"svg.hashsalt": "tether", "svg.fonttype": "none"}):
            figure.savefig(path, metadata={"Date": None})
        if "matplotlib.pyplot" in sys.modules:  # it keeps every figure that it made
            sys.modules["matplotlib.pyplot"].close(figure)
        return path

    def close(self) -> None:
        """Say how long it took, where, and with which versions; kept beside the results."""
        import scipy

        import tether

        self.shown.close()
        lines = [
            f"command: python -m experiments.{self.name}{' --quick' if self.quick else ''}",
            f"seconds: {time.time() - self.started:.0f} "
            f"(of the processor: {time.process_time():.0f})",
            f"machine: {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
            f"Python {platform.python_version()}",
            f"versions: tether {tether.__version__}, numpy {np.__version__}, "
            f"scipy {scipy.__version__}",
        ]
        (self.out / "run.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print("\n".join(lines))


def begin(file: str, arguments: Sequence[str] | None = None) -> Task:
    """Read the settings beside `file` and the command line: `--quick`, `--out`, `--set KEY=VALUE`.

    A quick run writes to `quick/` in the experiment's folder (ignored by git), a full one to
    `results/`, which is committed.
    """
    home = Path(file).resolve().parent
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{home.name}")
    parser.add_argument("--quick", action="store_true", help="a small version, under a minute")
    parser.add_argument("--out", type=Path, help="the folder for the results")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting (TOML)"
    )
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    settings = tomllib.loads((home / "config.toml").read_text(encoding="utf-8"))
    quick = settings.pop("quick", {})
    if given.quick:
        settings |= quick
    for text in given.set:
        try:
            chosen = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            parser.error(f"--set {text!r} is not KEY=VALUE in TOML: {error}")
        unknown = set(chosen) - set(settings)
        if unknown:
            parser.error(f"--set {text!r}: there is no such setting; there are {sorted(settings)}")
        settings |= chosen
    out = given.out or home / ("quick" if given.quick else "results")
    out.mkdir(parents=True, exist_ok=True)
    return Task(home.name, settings, given.quick, out, time.time(), _shown(home.name))


def _shown(name: str) -> ExitStack:
    """Bars for the experiment and for the long steps of the library in it, on a terminal."""
    import tether
    from tether._core import progress

    warnings.simplefilter("ignore", tether.PromiseWarning)  # they are about the paper's rule
    stack = ExitStack()
    atexit.register(stack.close)
    stack.enter_context(tether.progress_bars())
    stack.enter_context(progress.step(f"experiment {name}"))
    return stack


def each(processes: int, work: Callable[[Any], Any], jobs: Sequence[Any]) -> Iterator[Any]:
    """What `work` returns for each job, in order; with one process, in this one."""
    if processes == 1:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(work, jobs)


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """The mean over repeats and its standard error, leaving out what is not a number."""
    kept = np.asarray([value for value in values if not np.isnan(value)], dtype=float)
    if len(kept) < 2:
        return (float(kept.mean()) if len(kept) else np.nan), np.nan
    return float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(len(kept)))


def paired(ours: Mapping[Any, float], theirs: Mapping[Any, float]) -> dict[str, float]:
    """Ratio of means and mean difference over the same seeds, each with its standard error.

    `p` is that of a paired t-test, two-sided. The error of the ratio is by the delta method.
    """
    seeds = sorted(set(ours) & set(theirs))
    a, b = (np.array([each[seed] for seed in seeds]) for each in (ours, theirs))
    found = {"ratio": float(a.mean() / b.mean()) if b.any() else np.nan}
    found["ratio_error"] = (
        mean_and_error((a - found["ratio"] * b) / b.mean())[1] if b.any() else np.nan
    )
    found["difference"], found["difference_error"] = mean_and_error(a - b)
    found["p"] = np.nan
    if len(seeds) > 1 and found["difference_error"] > 0:
        from scipy.stats import t

        found["p"] = float(
            2 * t.sf(abs(found["difference"]) / found["difference_error"], len(seeds) - 1)
        )
    return found


def _short(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else value
