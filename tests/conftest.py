"""Random tests search anew on a person's machine, and are the same every time in CI.

No example of them has a deadline: it would measure the load of the machine.

Data files are looked for beside the checkout, unless `TETHER_DATA` names another folder.
"""

import functools
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("person", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "person")

BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("TETHER_DATA", str(BESIDE))


@pytest.fixture(scope="session", autouse=True)
def sqlite_without_fsync():
    """Do not wait for the disk in the tests' own process: no test switches the machine off."""
    if find_spec("sqlalchemy") is None:
        yield
        return
    from tether.rounds.store import engine

    set_up = engine._set_up_sqlite

    @functools.wraps(set_up)
    def in_haste(connection, record):
        set_up(connection, record)
        connection.execute("PRAGMA synchronous=OFF").fetchall()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_set_up_sqlite", in_haste)
        yield


@pytest.fixture
def needs_data():
    """A function that skips the test, saying why, when a data file cannot be had."""
    from experiments import data

    def need(*names):
        try:
            return [data.path(name) for name in names]
        except data.DataMissing as missing:
            pytest.skip(str(missing))

    return need
