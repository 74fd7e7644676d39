"""A store is created once, and only by the tether of its version."""

from __future__ import annotations

import pytest
import sqlalchemy as sql

from tests.rounds.worker_process import begin_and_act, open_run
from tether.rounds import StoreError, read_history
from tether.rounds.store import schema


@pytest.fixture
def of_version(store_url):
    """A function that makes the store one of another version."""

    def change(version):
        with open_run(store_url) as run:
            begin_and_act(run)
            with run._store.writing(exclusive=True) as writer:
                stored = schema.settings.update().where(schema.settings.c.name == "version")
                writer.connection.execute(stored.values(value=str(version)))
        return store_url

    return change


@pytest.mark.parametrize(
    ("version", "said"),
    [(schema.VERSION + 1, "upgrade tether"), (schema.VERSION - 1, "from before the first release")],
)
def test_a_store_of_another_version_is_refused_and_left_alone(of_version, version, said):
    url = of_version(version)
    for opening in (open_run, read_history):
        with pytest.raises(StoreError, match=said):
            opening(url)
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        assert connection.scalar(sql.select(sql.func.count()).select_from(schema.actions)) == 30
    engine.dispose()


def test_a_process_that_has_the_store_open_cannot_write_to_another_version(store_url):
    with open_run(store_url) as run:
        begin_and_act(run)
        with run._store.writing(exclusive=True) as writer:
            stored = schema.settings.update().where(schema.settings.c.name == "version")
            writer.connection.execute(stored.values(value=str(schema.VERSION + 1)))
        with pytest.raises(StoreError, match="restart the process"):
            run.observe([1], [0.0])


def test_processes_that_make_a_store_at_once_make_one(store_url, tmp_path, child_processes):
    journal = tmp_path / "journal"
    given = {"url": store_url, "journal": str(journal), "gate": str(tmp_path / "gate")}
    children = [child_processes.start("make", **given) for _ in range(4)]
    child_processes.open(tmp_path / "gate", journal, len(children))
    assert [child_processes.wait(child) for child in children] == [0] * 4
    with open_run(store_url) as run:
        assert run.history().rounds == ()
