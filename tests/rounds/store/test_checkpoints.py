"""Rows read from checkpoints are those read one by one, and a changed checkpoint is named."""

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import Controller, TamperedError
from tether.rounds.store import checkpoints, rows, schema
from tether.rounds.store.verify_run import find_tampering


class Texts(World):
    """Contexts that are too long to be copied."""

    def contexts(self, count, rng):
        return np.array([f"{'x' * 90} {number}" for number in rng.integers(9, size=count)])


EVERY = [*WORLDS, Texts("marginal")]


def make_run(world, rounds=4, store="sqlite://"):
    settings = {"alpha": 0.4, "alarm_risk": 0.9, "missing": "worst_case"}
    run, rng = Controller(world.safe(), store=store, **settings), np.random.default_rng(0)
    for number in range(1, rounds + 1):
        policy = None if isinstance(world, Texts) else world.optimized(number)
        taken = run.begin(policy).act(world.contexts(40, rng), rng)
        run.observe(taken.ids[::2], world.losses(taken.contexts, taken.actions)[::2])
        run.withdraw(taken.ids[1:6:2], "never carried out")
    return run


def read_rows(run):
    read = rows.Rows()
    with run._store.reading() as connection:
        read.refresh(connection)
    return read


def stored(run):
    with run._store.reading() as connection:
        return connection.execute(sql.select(schema.checkpoints)).fetchall()


@pytest.mark.parametrize("world", EVERY, ids=lambda world: type(world).__name__ + world.name)
def test_rows_from_checkpoints_are_those_read_one_by_one(world, monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 50)
    run = make_run(world)
    assert len(stored(run)) == 3
    read = read_rows(run)
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 10**9)
    one_by_one = read_rows(run)
    assert len(read) == 160
    assert vars(read).keys() == vars(one_by_one).keys()
    for name in vars(read).keys() - {"checkpoints"}:
        np.testing.assert_array_equal(getattr(read, name), getattr(one_by_one, name), err_msg=name)
    with run._store.reading() as connection:
        assert list(find_tampering(connection)) == []


def test_they_are_made_only_where_there_are_enough_rows():
    assert stored(make_run(World("marginal"))) == []


def test_a_reader_that_stopped_in_between_reads_on(monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 50)
    world, rng = World("marginal"), np.random.default_rng(1)
    run, late = make_run(world, rounds=1), rows.Rows()
    for number in range(2, 7):
        one_round(run, world, number, 30, rng)
        if number % 2:
            with run._store.reading() as connection:
                late.refresh(connection)
    with run._store.reading() as connection:
        late.refresh(connection)
    whole = read_rows(run)
    for name in vars(whole).keys() - {"checkpoints"}:
        np.testing.assert_array_equal(getattr(whole, name), getattr(late, name), err_msg=name)


def test_of_two_processes_one_writes_a_checkpoint(monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 50)
    run = make_run(World("marginal"), rounds=3)
    with run._store.reading() as connection:
        made = list(checkpoints.make_checkpoints(connection))
    assert len(made) == 1
    for _ in range(2):
        with run._store.writing(exclusive=True) as writer:
            checkpoints.write_checkpoints(writer, made)
    assert len(stored(run)) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "UPDATE tether_checkpoints SET content = CAST(content || 'x' AS BLOB)",
            "checkpoint of lane 0",
        ),
        ("UPDATE tether_checkpoints SET place = replace(place, '0', '1')", "checkpoint of lane 0"),
        ("DELETE FROM tether_checkpoints WHERE first = 1", "checkpoint of lane 0"),
        (
            "UPDATE tether_actions SET context = CAST(upper(context) AS BLOB) WHERE id = 7",
            "actions 1 to 40",
        ),
    ],
)
def test_what_was_changed_is_named(change, message, monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 50)
    run = make_run(Texts("marginal"), store=tmp_path / "run.db")
    with run._store._engine.begin() as connection:
        connection.execute(sql.text(change))
    with pytest.raises(TamperedError, match=message):
        read_rows(run)
    assert_named(run, message)
    run.close()


def assert_named(run, message):
    with run._store.reading() as connection:
        assert any(message in finding for finding in find_tampering(connection))


def test_one_made_while_reading_is_the_one_made_later(monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 50)
    run = make_run(World("tables"), rounds=1)
    read = read_rows(run)
    assert len(read.checkpoints) == 1
    with run._store.reading() as connection:
        assert list(checkpoints.make_checkpoints(connection)) == read.checkpoints
        again = checkpoints.make_checkpoints(connection, read.checkpoints)
        assert list(again) == read.checkpoints


def test_one_row_at_a_time(monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_ROWS", 20)
    rng = np.random.default_rng(3)
    run = Controller(tether.Gaussian(0.0), alpha=0.4, alarm_risk=0.9, store="sqlite://")
    for _ in range(2):
        begun = run.begin()
        for _ in range(15):
            taken = begun.act(1, rng)
            run.observe(taken.ids, [0.1])
    assert len(stored(run)) == 1
    assert read_rows(run).ids.tolist() == list(range(1, 31))
