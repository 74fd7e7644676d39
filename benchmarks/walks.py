"""How many files a reader has to open to follow an everyday call.

Each walk runs in a fresh process under `sys.setprofile` and lists the files of the package of which
a function is called. Module and class bodies do not count, nor do the methods that `dataclasses`
generates, which have no file.

    python -m benchmarks.walks             # every list
    python -m benchmarks.walks begin gcrc  # some of them
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "tether"
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Functions before Python 3.12, also at module level; the function around them counts anyway."""

Walk = Callable[[], object]
"""A call that is followed. What prepares it is not."""


def calibrate(folder: Path) -> Walk:
    """`tether calibrate LOG --no-context --alpha 0.1 --proposals DRAWS`: clip, text output."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    for name, points in (("log", rng.normal(size=800)), ("draws", rng.normal(1, 0.8, size=300))):
        columns = {
            "log_safe": -(points**2) / 2,
            "log_optimized": -(((points - 1) / 0.8) ** 2) / 2 - np.log(0.8),
        }
        if name == "log":
            columns["loss"] = (points > 1.5).astype(float)
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    paths = [str(folder / "log.parquet"), "--proposals", str(folder / "draws.parquet")]

    def walk() -> None:
        from tether.__main__ import main

        sys.argv = ["tether", "calibrate", *paths, "--alpha", "0.1", "--no-context"]
        try:
            main()
        except SystemExit as finished:
            if finished.code:
                raise RuntimeError(f"tether calibrate: exit code {finished.code}") from finished

    return walk


def begin(folder: Path) -> Walk:
    """`Controller.begin` of a second round: Gaussian policies, no contexts, SQLite."""
    return _round(folder, serve=False)


def whole_round(folder: Path) -> Walk:
    """`begin`, `act` and `observe` of the same round."""
    return _round(folder, serve=True)


def _round(folder: Path, *, serve: bool) -> Walk:
    import tether
    from tether.runs import Controller

    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0, 1.0), tether.Gaussian(0.5, 0.9)
    run = Controller(safe, folder / "run.db", alpha=0.1)
    first = run.begin()
    taken = first.act(400, rng)
    run.observe(taken.ids, taken.actions > 1.5)

    def walk() -> None:
        second = run.begin(optimized)
        if second.calibration is None or not second.calibration.exists:
            raise RuntimeError(f"no beta passed, so this is not the usual walk: {second.note}")
        if serve:
            taken = second.act(100, rng)
            run.observe(taken.ids, taken.actions > 1.5)

    return walk


def gcrc(_: Path) -> Walk:
    """`tether.gcrc` on scored claims."""
    import tether

    rng = np.random.default_rng(0)
    scores = rng.random(5000)
    labels = rng.random(5000) < scores
    return lambda: tether.gcrc(tether.Claims(scores, labels, np.arange(0, 5001, 5)), alpha=0.1)


WALKS: dict[str, Callable[[Path], Walk]] = {
    "calibrate": calibrate,
    "begin": begin,
    "round": whole_round,
    "gcrc": gcrc,
}
LIMITS = {"calibrate": 35, "begin": 55}
"""The most files that a walk may visit, where there is a limit."""


def follow(walk: Walk) -> list[str]:
    """The files of the package of which `walk` calls a function, in the order of the first call."""
    start, files = f"{PACKAGE}{os.sep}", {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name not in COMPREHENSIONS
        if event == "call" and is_function and code.co_filename.startswith(start):
            files.setdefault(code.co_filename.removeprefix(start))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [Path(name).as_posix() for name in files]


def visited(name: str) -> list[str]:
    """The same for one of `WALKS`, in a fresh process."""
    paths = os.pathsep.join([str(PACKAGE.parent), str(ROOT)])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.walks", "--into", folder, name]
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"walk {name} failed:\n{done.stderr}")
        files: list[str] = json.loads((Path(folder) / "files.json").read_text(encoding="utf-8"))
    return files


def main() -> None:
    """Print the lists, or follow one walk and write its list."""
    about = "List the files of the package that everyday calls visit."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walks", description=about)
    parser.add_argument("walks", nargs="*", help=f"Any of {', '.join(WALKS)}. [all]")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.walks:
        if name not in WALKS:
            parser.error(f"walks must be any of {', '.join(WALKS)}, got {name!r}")
    if options.into is not None:
        files = follow(WALKS[options.walks[0]](options.into))
        (options.into / "files.json").write_text(json.dumps(files), encoding="utf-8")
        return
    for name in options.walks or WALKS:
        files = visited(name)
        limit = f", at most {LIMITS[name]}" if name in LIMITS else ""
        print(f"{name}: {len(files)} files{limit}\n  {WALKS[name].__doc__}")
        print("".join(f"    {file}\n" for file in files), flush=True)


if __name__ == "__main__":
    main()
