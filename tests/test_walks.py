"""Everyday calls can be followed through few files.

Each walk runs in a fresh process under `sys.setprofile`, and lists the files of the package of
which a function is called; bodies of modules and classes do not count.
"""

import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tether

PACKAGE = Path(tether.__file__).parent


def calibrate(folder):
    """`tether calibrate LOG --no-context --alpha 0.1 --proposals DRAWS`."""
    import pyarrow as pa
    from pyarrow import parquet

    from tether.__main__ import main

    rng = np.random.default_rng(0)
    for name, points in (("log", rng.normal(size=800)), ("draws", rng.normal(1, 0.8, size=300))):
        optimized = -(((points - 1) / 0.8) ** 2) / 2 - np.log(0.8)
        columns = {"log_safe": -(points**2) / 2, "log_optimized": optimized}
        if name == "log":
            columns["loss"] = (points > 1.5).astype(float)
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    paths = [str(folder / "log.parquet"), "--proposals", str(folder / "draws.parquet")]
    sys.argv = ["tether", "calibrate", *paths, "--alpha", "0.1", "--no-context"]
    return main


def begin(folder):
    """`Controller.begin` of a second round: Gaussian policies, no contexts, SQLite."""
    from tether.runs import Controller

    run = Controller(tether.Gaussian(0.0, 1.0), folder / "run.db", alpha=0.1)
    taken = run.begin().act(400, np.random.default_rng(0))
    run.observe(taken.ids, taken.actions > 1.5)

    def walk():
        second = run.begin(tether.Gaussian(0.5, 0.9))
        assert second.calibration is not None
        assert second.calibration.exists

    return walk


LIMITS = {calibrate: 25, begin: 46}
"""The most files that a walk may visit."""


def follow(walk):
    """The files of the package of which `walk` calls a function."""
    start, files = f"{PACKAGE}{os.sep}", {}

    def profile(frame, event, _):
        code = frame.f_code
        is_named = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if event == "call" and is_named and code.co_filename.startswith(start):
            files.setdefault(code.co_filename.removeprefix(start))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        walk()
    except SystemExit as finished:  # of the command
        if finished.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(files)


def files_of(walk, folder):
    """What `follow` lists of a walk in a process of its own."""
    script = (
        "from pathlib import Path; from tests import test_walks as t; "
        f"print('FILES', *t.follow(t.{walk.__name__}(Path({str(folder)!r}))))"
    )
    paths = os.pathsep.join([str(PACKAGE.parent), str(Path(__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("FILES ")[1].split()


@pytest.mark.parametrize("walk", LIMITS, ids=lambda walk: walk.__name__)
def test_a_walk_visits_few_files(walk, tmp_path):
    files = files_of(walk, tmp_path)
    assert 0 < len(files) <= LIMITS[walk], f"{len(files)} files:\n" + "\n".join(files)
