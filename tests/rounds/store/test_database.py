"""What a store keeps, on both databases, and what it says where it cannot be one."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import sqlalchemy as sql

from tests.rounds.worker_process import begin_and_act, open_run
from tether.rounds import StoreError, read_history
from tether.rounds.store.database import Store
from tether.rounds.store.queries import (
    read_settings,
    write_settings,
)


def test_what_is_written_is_there_when_the_store_is_opened_again(store_url):
    first = Store(store_url)
    with first.writing(exclusive=True) as writer:
        write_settings(writer, {"alpha": 0.1})
    first.close()
    again = Store(store_url, create=False)
    with again.reading() as connection:
        assert read_settings(connection) == {"alpha": 0.1}
    again.close()


def test_nothing_of_a_failed_transaction_is_kept(store_url):
    opened = Store(store_url)

    def fail():
        with opened.writing(exclusive=True) as writer:
            write_settings(writer, {"alpha": 0.1})
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    with opened.reading() as connection:
        assert read_settings(connection) == {}
    opened.close()


def test_a_reader_sees_one_snapshot(store_url):
    opened = Store(store_url)
    with opened.reading() as connection:
        assert read_settings(connection) == {}
        with opened.writing(exclusive=True) as other:
            write_settings(other, {"alpha": 0.1})
        assert read_settings(connection) == {}
    with opened.reading() as connection:
        assert read_settings(connection) == {"alpha": 0.1}
    opened.close()


def test_a_store_without_a_run_is_an_error_to_read(store_url):
    Store(store_url).close()  # as a process leaves it that is killed before it wrote its settings
    with pytest.raises(StoreError, match="holds no run of tether yet"):
        read_history(store_url)
    open_run(store_url).close()
    assert read_history(store_url).rounds == ()


def test_reading_an_empty_database_creates_nothing(postgres_url):
    with pytest.raises(StoreError, match="holds no run of tether"):
        read_history(postgres_url)
    engine = sql.create_engine(postgres_url)
    assert sql.inspect(engine).get_table_names() == []
    engine.dispose()


@pytest.mark.parametrize("looks", [True, False])
def test_a_database_of_another_program(tmp_path, looks):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (name TEXT)")
        other.execute("INSERT INTO songs VALUES ('one')")
    other.close()
    before = path.read_bytes()
    if looks:
        with pytest.raises(StoreError, match="holds no run of tether"):
            read_history(path)
        assert path.read_bytes() == before
    else:
        with open_run(str(path)) as run:
            begin_and_act(run)
        with sqlite3.connect(path) as other:
            assert other.execute("SELECT name FROM songs").fetchall() == [("one",)]
            names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
        other.close()
        ours = {name for name in names if "tether_" in name}
        assert names == {"songs"} | ours


def test_a_table_of_the_same_name_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE tether_settings (name TEXT, value TEXT)")
    other.close()
    with pytest.raises(StoreError, match="tether_settings that was not created by tether"):
        open_run(str(path))
    with sqlite3.connect(path) as other:
        assert len(other.execute("SELECT name FROM sqlite_master").fetchall()) == 1
    other.close()


def test_a_file_that_is_no_store_is_an_error(tmp_path):
    (tmp_path / "text").write_text("not a database, and long enough to be read as one " * 100)
    for path, said in [
        (tmp_path, "unable to open database file"),
        (tmp_path / "nowhere" / "run.db", "there is no folder .*nowhere"),
        (tmp_path / "text", "file is not a database"),
    ]:
        with pytest.raises(StoreError, match=f"could not open .*{said}"):
            open_run(str(path))
    with pytest.raises(StoreError, match=r"there is no store .*absent"):
        read_history(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_a_damaged_file_is_an_error(tmp_path):
    path = tmp_path / "run.db"
    with open_run(str(path)) as run:
        begin_and_act(run, rows=500)
    damaged = bytearray(path.read_bytes())
    damaged[4096 * 8 :] = b"\xff" * (len(damaged) - 4096 * 8)
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="malformed"), open_run(str(path)) as run:
        run.pending()


def test_a_file_that_may_not_be_written():
    folder = Path(tempfile.mkdtemp())
    path = folder / "run.db"
    with open_run(str(path)) as run:
        begin_and_act(run)
    connection = sqlite3.connect(path)  # as on a read-only disk: there is no log beside it
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.close()
    path.chmod(0o444)
    folder.chmod(0o555)
    script = f"""
import os
from tests.rounds.worker_process import open_run, warm_up
from tether.rounds import StoreError, read_history
warm_up()
if os.geteuid() == 0:
    os.setuid(65534)
print(len(read_history({str(path)!r}).rounds))
try:
    open_run({str(path)!r})
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    folder.chmod(0o755)
    shutil.rmtree(folder)
    assert not done.stderr
    rounds, said = done.stdout.splitlines()
    assert rounds == "1"
    assert "this process may not write to the file or its folder" in said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://user:hush@host/runs", r"SQLite or PostgreSQL \(with psycopg\), got 'mysql'"),
        ("postgresql+nonsense://user:hush@host/runs", "got 'postgresql\\+nonsense'"),
        ("postgresql://user:hush@host:port/runs", r"got 'postgresql://\*\*\*'"),
        ("://user:hush@host", r"got ':\*\*\*@host'"),
    ],
)
def test_a_wrong_url_is_shown_without_its_password(url, said):
    with pytest.raises(ValueError, match=said) as caught:
        open_run(url)
    error = caught.value
    while error is not None:
        assert "hush" not in repr(error)
        error = error.__cause__


def test_a_schema_that_does_not_exist_is_an_error_that_says_what_to_do(postgres_url):
    in_schema = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3Dclinic"
    with pytest.raises(StoreError, match=r"must exist: CREATE SCHEMA"):
        open_run(in_schema)
    engine = sql.create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(sql.text("CREATE SCHEMA clinic"))
    engine.dispose()
    open_run(in_schema).close()


def test_passwords_are_never_shown(server, postgres_url):
    server.tell("DROP ROLE IF EXISTS locked")
    server.tell("CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'open-sesame'")
    right = postgres_url.replace("tether@", "locked:open-sesame@")
    in_query = f"{postgres_url.replace('tether@', 'locked@')}&password=open-sesame"
    for url in (right, in_query):
        with open_run(url) as run:
            shown = [repr(run), str(run.history()), run._store.name]
        with pytest.raises(StoreError, match="authentication failed") as caught:
            open_run(url.replace("sesame", "door"))
        shown += [str(caught.value), repr(caught.value.__cause__), str(caught.value.__cause__)]
        assert not any("open-sesame" in each or "open-door" in each for each in shown)
        assert "locked" in str(caught.value)


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match=r"could not open .*\*\*\*@/runs.*No such file"):
        open_run(f"postgresql://user:hush@/runs?host={tmp_path}")


def test_a_missing_driver_says_what_to_install():
    script = """
import sys
sys.modules["psycopg"] = None
from tether.rounds.store.database import Store
try:
    Store("postgresql://user:hush@host/runs")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install 'tether[postgres]'" in done.stdout, done.stderr
    assert "hush" not in done.stdout


@pytest.mark.parametrize("name", ["run?1.db", "run%20.db", "a b#c.db", "ü&=;.db", "mode=ro?"])
def test_a_path_is_a_path_whatever_characters_it_has(tmp_path, name):
    for path in (tmp_path / name, str(tmp_path / name)):
        Store(path).close()
    found = {each.name for each in tmp_path.iterdir()}
    assert {each for each in found if not each.endswith(("-queue", "-wal", "-shm"))} == {name}
