"""An older store becomes a newer one in one step, whoever opens it first; a newer is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql

from tests.rounds.concurrent_jobs import NEWER, add_a_column, fail_half_way
from tests.rounds.store_invariants import check_whole, read_tables
from tests.rounds.worker_process import begin_and_act, open_run, read_journal
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller, StoreError, read_history, resume
from tether.rounds.store import schema


@pytest.fixture
def older(store_url):
    """A store with a run, made by the present version."""
    with open_run(store_url) as run:
        begin_and_act(run)
        run.observe([1, 2, 3], [0.5, 0.25, 0.125])
    return store_url


def state(url):
    """The version, the columns of the alarms, and all rows; read beside tether."""
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        version = connection.execute(
            sql.text("SELECT value FROM tether_settings WHERE name = 'version'")
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


def test_reading_an_older_store_migrates_it(older, monkeypatch):
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


def test_a_process_that_is_older_than_the_store_cannot_write(older, monkeypatch):
    with open_run(older) as run:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "VERSION", NEWER)
            patch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **add_a_column()})
            open_run(older).close()
        before = read_tables(run)
        with pytest.raises(
            StoreError, match=rf"migrated to version {NEWER} .* restart the process"
        ):
            run.observe([4], [1.0])
        assert read_tables(run) == before


def test_a_newer_store_is_refused_and_left_alone(older, monkeypatch):
    before = state(older)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", schema.VERSION - 1)
        for opening in (open_run, read_history):
            with pytest.raises(StoreError, match="upgrade tether"):
                opening(older)
    assert state(older) == before


def test_processes_that_open_at_once_migrate_once(older, tmp_path, child_processes):
    journal = tmp_path / "journal"
    given = {"url": older, "journal": str(journal), "gate": str(tmp_path / "gate")}
    children = [child_processes.start("migrate", **given) for _ in range(4)]
    child_processes.open(tmp_path / "gate", journal, len(children))
    assert [child_processes.wait(child) for child in children] == [0] * 4
    said = [line["what"] for line in read_journal(journal)]
    assert said.count("opened") == 4
    assert said.count("step") == NEWER - schema.VERSION
    assert state(older)[0] == NEWER


def test_processes_that_make_a_store_at_once_make_one(store_url, tmp_path, child_processes):
    journal = tmp_path / "journal"
    given = {"url": store_url, "journal": str(journal), "gate": str(tmp_path / "gate")}
    children = [child_processes.start("make", **given) for _ in range(4)]
    child_processes.open(tmp_path / "gate", journal, len(children))
    assert [child_processes.wait(child) for child in children] == [0] * 4
    with open_run(store_url) as run:
        assert run.history().rounds == ()


OLD_SETTINGS = {"min_observed_share": "enough", "alarm_risk": "watched"}
OLD_SETTINGS |= {"false_alarm_probability": "delta"}
OLD_CALIBRATION_KEYS = {
    "log_beta_by_constraint": "allowed",
    "rows_beyond_draws": "beyond",
    "promise": "guarantee",
    "promises": "guarantees",
}


NEW_CALIBRATION_KEYS = (
    *("promise_terms", "robustness", "blend", "asked_promise", "confidence"),
    "provenance",
)
NEW_CALIBRATION_KEYS += ("upper_bounds", "actions", "approximate", "ratio_error", "useful")


def in_terms_of_version_3(rounds):
    """Rows of the table of rounds without what version 4 added."""
    for row in rounds:
        row["log_psi_error"] = None
        if row["calibration"] is not None:
            content = json.loads(row["calibration"])
            kept = {k: v for k, v in content.items() if k not in NEW_CALIBRATION_KEYS}
            kept["constraints"] = [
                {k: v for k, v in each.items() if k != "ratio_error"}
                for each in kept["constraints"]
            ]
            row["calibration"] = json.dumps(kept | {"promise": None, "promises": None})
    return rounds


def make_version_3(url):
    """Take the candidates away, the terms of promises, and what version 4 says of them."""
    engine = sql.create_engine(url)
    with engine.begin() as connection:
        for statement in (
            "ALTER TABLE tether_actions DROP COLUMN candidates",
            "ALTER TABLE tether_rounds DROP COLUMN log_psi_error",
            "DELETE FROM tether_settings WHERE name = 'shortlist'",
            "UPDATE tether_settings SET value = '3' WHERE name = 'version'",
        ):
            connection.execute(sql.text(statement))
        read = "SELECT number, calibration FROM tether_rounds"
        for number, text in connection.execute(sql.text(read)).fetchall():
            if text is not None:
                content = json.loads(text)
                for name in NEW_CALIBRATION_KEYS:
                    content.pop(name, None)
                update = "UPDATE tether_rounds SET calibration = :text WHERE number = :number"
                values = {"text": json.dumps(content), "number": number}
                connection.execute(sql.text(update), values)
    engine.dispose()


def make_older(url, version):
    """Give a store the tables of version 3, the names of version 2, or the tables of version 1."""
    make_version_3(url)
    if version == 3:
        return
    engine = sql.create_engine(url)
    with engine.begin() as connection:

        def run(statement, **values):
            return connection.execute(sql.text(statement), values)

        for new, old in OLD_SETTINGS.items():
            run("UPDATE tether_settings SET name = :old WHERE name = :new", old=old, new=new)
        for number, text in run("SELECT number, calibration FROM tether_rounds").fetchall():
            if text is not None:
                content = json.loads(text)
                content = {OLD_CALIBRATION_KEYS.get(k, k): v for k, v in content.items()}
                text = json.dumps(content)
            update = "UPDATE tether_rounds SET calibration = :text WHERE number = :number"
            run(update, text=text, number=number)
        run("ALTER TABLE tether_settings RENAME TO tether_terms")
        run("ALTER TABLE tether_observations RENAME TO tether_reports")
        for table in ("rounds", "alarms"):
            run(f"ALTER TABLE tether_{table} RENAME COLUMN last_observation TO last_report")
        if version == 1:
            run("DROP TABLE tether_failures")
        run("UPDATE tether_terms SET value = :version WHERE name = 'version'", version=str(version))
    engine.dispose()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_store_of_an_older_version_is_the_same_run_after_its_migration(store_url, version):
    world, rng = World("marginal"), np.random.default_rng(0)
    options = {"alpha": 0.3, "min_observed_share": 0.9, "store": store_url}
    with Controller(world.safe(), **options) as run:
        for number in (1, 2):
            one_round(run, world, number, 100, rng)
        taken = run.round.act(50, rng)
        run.observe(taken.ids, np.ones(50))
        run.resume("a drill")
        before = run.history()
        tables = read_tables(run)
    make_older(store_url, version)
    assert read_history(store_url) == before
    policies = {"round 2": world.optimized(2)}
    with Controller(world.safe(), **options, policies=policies) as run:
        migrated = read_tables(run)
        for both in (migrated, tables):
            both["tether_rounds"] = in_terms_of_version_3(both["tether_rounds"])
        assert migrated == tables
        assert run.round.beta == before.rounds[1].beta > 0
        assert one_round(run, world, 3, 20, rng)[0].calibration is not None
    assert state(store_url)[0] == schema.VERSION


def test_reading_a_store_that_only_lacks_tables_leaves_it_unchanged(older, monkeypatch):
    before = state(older)
    monkeypatch.setattr(schema, "VERSION", NEWER)
    monkeypatch.setattr(schema, "MIGRATIONS", {**schema.MIGRATIONS, **add_a_column()})
    monkeypatch.setattr(schema, "ADDITIVE_VERSIONS", frozenset({NEWER - 2, NEWER - 1}))
    assert read_history(older).rounds[0].observed == 3
    assert state(older) == before
    with pytest.raises(ValueError, match="no alarm stands"):
        resume(older, "a drill")
    assert state(older) == before  # the refused call changed nothing, not even the version
