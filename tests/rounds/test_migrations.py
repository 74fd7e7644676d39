"""An older store becomes a newer one in one step, whoever opens it first; a newer is refused."""

from __future__ import annotations

import pytest
import sqlalchemy as sql

from tests.rounds.invariants import check_whole, read_tables
from tests.rounds.test_store import act
from tests.rounds.worker import open_run, read_journal
from tests.rounds.worker_jobs import NEWER, add_a_column, fail_half_way
from tether.rounds import StoreError, read_history
from tether.rounds.store import schema


@pytest.fixture
def older(store_url):
    """A store with a run, made by the present version."""
    with open_run(store_url) as run:
        act(run)
        run.observe([1, 2, 3], [0.5, 0.25, 0.125])
    return store_url


def state(url):
    """The version, the columns of the alarms, and all rows; read beside tether."""
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        version = connection.execute(
            sql.text("SELECT value FROM tether_terms WHERE name = 'version'")
        ).scalar_one()
        columns = [each["name"] for each in sql.inspect(connection).get_columns("tether_alarms")]
        rows = connection.execute(sql.text("SELECT * FROM tether_actions ORDER BY id")).fetchall()
    engine.dispose()
    return int(version), columns, rows


def test_an_older_store_is_migrated_and_goes_on(older, monkeypatch):
    version, columns, rows = state(older)
    assert version == schema.VERSION
    monkeypatch.setattr(schema, "VERSION", NEWER)
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **add_a_column()})
    with open_run(older) as run:
        run.observe([4], [1.0])
        check_whole(read_tables(run))
    after = state(older)
    assert after == (NEWER, [*columns, "colour", "size"], rows)


def test_a_looker_finds_a_migrated_store_as_well(older, monkeypatch):
    monkeypatch.setattr(schema, "VERSION", NEWER)
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **add_a_column()})
    assert read_history(older).rounds[0].observed == 3
    assert state(older)[0] == NEWER


def test_a_migration_that_fails_leaves_the_older_store_as_it_was(older, monkeypatch):
    before = state(older)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", NEWER)
        patch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **fail_half_way()})
        with pytest.raises(StoreError, match=r"could not open .*no_such_table"):
            open_run(older)
    assert state(older) == before
    with open_run(older) as run:
        run.observe([4], [1.0])


def test_a_process_of_before_writes_no_more_into_a_migrated_store(older, monkeypatch):
    with open_run(older) as run:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "VERSION", NEWER)
            patch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **add_a_column()})
            open_run(older).close()
        before = read_tables(run)
        with pytest.raises(StoreError, match=rf"brought to version {NEWER} .* restart it"):
            run.observe([4], [1.0])
        assert read_tables(run) == before


def test_a_newer_store_is_refused_and_left_alone(older, monkeypatch):
    before = state(older)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", schema.VERSION - 1)
        for opening in (open_run, read_history):
            with pytest.raises(StoreError, match="upgrade it"):
                opening(older)
    assert state(older) == before


def test_processes_that_open_at_once_migrate_once(older, tmp_path, nursery):
    journal = tmp_path / "journal"
    given = {"url": older, "journal": str(journal), "gate": str(tmp_path / "gate")}
    children = [nursery.start("migrate", **given) for _ in range(4)]
    nursery.open(tmp_path / "gate", journal, len(children))
    assert [nursery.wait(child) for child in children] == [0] * 4
    said = [line["what"] for line in read_journal(journal)]
    assert said.count("opened") == 4
    assert said.count("step") == NEWER - schema.VERSION
    assert state(older)[0] == NEWER


def test_processes_that_make_a_store_at_once_make_one(store_url, tmp_path, nursery):
    journal = tmp_path / "journal"
    given = {"url": store_url, "journal": str(journal), "gate": str(tmp_path / "gate")}
    children = [nursery.start("make", **given) for _ in range(4)]
    nursery.open(tmp_path / "gate", journal, len(children))
    assert [nursery.wait(child) for child in children] == [0] * 4
    with open_run(store_url) as run:
        assert run.history().rounds == ()
