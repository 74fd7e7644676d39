"""Random tests search anew on a person's machine, and are the same every time in CI.

No example of them has a deadline: it would measure the load of the machine.

Data files are looked for beside the checkout, unless `TETHER_DATA` names another folder.
"""

import functools
import gc
import itertools
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.scale import scaled

settings.register_profile("person", max_examples=scaled(50), deadline=None)
settings.register_profile("ci", settings.get_profile("person"), derandomize=True)
once = (Phase.explicit, Phase.generate)  # to find an example is enough
settings.register_profile("mutants", settings.get_profile("ci"), phases=once)
settings.load_profile("ci" if os.environ.get("CI") else "person")

BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("TETHER_DATA", str(BESIDE))


def pytest_addoption(parser):
    """`pytest --update-snapshots` writes what is printed now in the place of what was expected."""
    parser.addoption("--update-snapshots", action="store_true", help="write snapshots anew")


def pytest_collection_finish():
    """Let the garbage collector pass over what all tests have imported, and not walk it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def salts_of_releases(monkeypatch):
    """Give the releases of a test the same salts every time."""
    salts = itertools.count()
    monkeypatch.setattr("secrets.token_bytes", lambda size: next(salts).to_bytes(size, "big"))


@pytest.fixture(scope="session", autouse=True)
def sqlite_without_fsync():
    """Do not wait for the disk in the tests' own process: no test switches the machine off."""
    if find_spec("sqlalchemy") is None:
        yield
        return
    from sqlalchemy import event

    from tether.runs.databases import Database

    made = Database._sqlite

    @functools.wraps(made)
    def in_haste(database, url, create):
        engine = made(database, url, create)
        event.listen(engine, "connect", lambda driver, _: driver.execute("PRAGMA synchronous=OFF"))
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_sqlite", in_haste)
        yield


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once():
    """Let all SQLite stores of a process share their compiled statements.

    SQLAlchemy keeps them by engine and dialect, and the tests open thousands of stores.
    """
    if find_spec("sqlalchemy") is None:
        yield
        return
    import sqlalchemy as sql
    from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite as Dialect
    from sqlalchemy.util import LRUCache

    create, compiled = sql.create_engine, LRUCache(1_000)

    def sharing(*given, **options):
        engine = create(*given, **options)
        if type(engine.dialect) is Dialect:
            engine._compiled_cache = compiled
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sql, "create_engine", sharing)
        patch.setattr(Dialect, "__eq__", lambda self, other: type(self) is type(other))
        patch.setattr(Dialect, "__hash__", lambda self: hash(type(self)))
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
