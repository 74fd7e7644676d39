"""A full disk, a lost connection, a stopped server: a clear error, nothing stored in part."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sql

from tests.rounds.store_invariants import check_alarms, check_whole, read_tables
from tests.rounds.worker_process import CONTEXTS, named, open_run, two_rounds
from tether.rounds import StoreError

STORED_OR_NOT = "Nothing was stored|may or may not have been stored"


@pytest.fixture
def small_disk():
    """A file system of 24 MB of its own."""
    folder = Path(tempfile.mkdtemp())
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.call(command):
        folder.rmdir()
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.check_call(["umount", "-l", str(folder)])
    folder.rmdir()


@contextmanager
def filled(folder):
    """No byte is left on the disk."""
    with (folder / "filler").open("wb", buffering=0) as filler:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while filler.write(b"x" * size) == size:
                    pass
    yield
    (folder / "filler").unlink()


def every_call(run, taken):
    """Each thing that can be asked of a run, all of them writing, by name."""
    rng = np.random.default_rng(3)
    contexts = rng.integers(CONTEXTS, size=30)
    return {
        "act": lambda: run.round.act(contexts, rng),
        "observe": lambda: run.observe(taken.ids[1:], 0.01 + 0.13 * taken.actions[1:]),
        "withdraw": lambda: run.withdraw(taken.ids[:1], "never carried out"),
        "begin": lambda: run.begin(named("tilt 3"), name="tilt 3"),
    }


def check(run, before=None):
    """All is whole, and as it was before; the tables."""
    tables = read_tables(run)
    check_whole(tables)
    check_alarms(tables)
    assert before is None or tables == before
    return tables


def fail_until_there_is_space(run, taken, full):
    """Calls fail on a full disk and change nothing; then they work."""
    calls = every_call(run, taken)
    calls["observe"]()
    calls["withdraw"]()
    rng = np.random.default_rng(4)
    many = rng.integers(CONTEXTS, size=2_000)
    with full:
        for call in (calls["begin"], lambda: run.round.act(many, rng)):
            assert re.search(f"could not write .*({STORED_OR_NOT})", until_it_fails(run, call))
    before = check(run)
    run.round.act(many, rng)
    run.observe(run.pending().ids, np.zeros(2_000))
    assert calls["begin"]().number == len(before["tether_rounds"]) + 1
    check(run)


def until_it_fails(run, call):
    """Call while there is room inside of the files; what the error says."""
    for _ in range(1000):
        before = check(run)
        try:
            call()
        except StoreError as error:
            check(run, before)
            return str(error)
    raise AssertionError("the disk was never full")


def test_a_full_disk(small_disk):
    with open_run(f"sqlite:///{small_disk / 'run.db'}") as run:
        fail_until_there_is_space(run, two_rounds(run), filled(small_disk))


def test_a_file_that_may_not_grow(sqlite_url):
    """The same without a disk of its own: SQLite has a limit of pages for a file."""
    with open_run(sqlite_url) as run:
        taken = two_rounds(run)

        @contextmanager
        def full():
            limit = 1
            pages = sql.event.listens_for(run._store._engine, "connect")
            run._store._engine.dispose()  # connections are made anew
            pages(lambda raw, _: raw.execute(f"PRAGMA max_page_count={limit}").fetchall())
            yield
            limit = 2**30
            run._store._engine.dispose()

        fail_until_there_is_space(run, taken, full())


@pytest.mark.parametrize("name", ["act", "observe", "withdraw", "begin"])
def test_a_connection_that_is_lost_at_any_statement(server, postgres_url, name):
    with open_run(postgres_url) as run:
        taken = two_rounds(run)
        calls = every_call(run, taken)
        if name == "begin":
            calls["observe"]()
            calls["withdraw"]()
        before, failed = check(run), []
        for statement in range(1, 100):
            passed = 0

            def cut(*_):
                nonlocal passed
                passed += 1
                if passed == statement:  # noqa: B023
                    server.cut(postgres_url)

            sql.event.listen(run._store._engine, "after_cursor_execute", cut)
            try:
                calls[name]()
                break
            except StoreError as error:
                failed.append(str(error))
            finally:
                sql.event.remove(run._store._engine, "after_cursor_execute", cut)
            check(run, before)
        if name in ("act", "begin"):  # after an observation is stored the monitors may fail
            assert passed < statement, "the call was not made again to the end"
        assert sum("may or may not have been stored" in each for each in failed) == 1, failed
        assert all("could not" in each or "may or may not" in each for each in failed)
        assert check(run) != before


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_goes_away_and_comes_back(server, postgres_url, mode):
    with open_run(postgres_url) as run:
        taken = two_rounds(run)
        before, calls = check(run), every_call(run, taken)
        server.stop(mode)
        try:
            for name in ("act", "observe", "withdraw", "begin"):
                with pytest.raises(StoreError, match=r"could not (read|write) .*No such file"):
                    calls[name]()
            with pytest.raises(StoreError, match="could not open"):
                open_run(postgres_url)
        finally:
            server.start()
        check(run, before)
        for name in ("observe", "withdraw", "begin", "act"):
            calls[name]()
        check(run)
