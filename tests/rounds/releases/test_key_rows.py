"""The rows of keys are found, whatever is in the keys, and by their index."""

from __future__ import annotations

import pytest

import tether
from tether.rounds.releases import key_rows
from tether.rounds.releases.key_rows import read_key_rows
from tether.rounds.store.queries import IDS_PER_QUERY

ODD = ["'", '"', "\\", "\\x41", "{}", "{a,b}", "%s", "%", "a,b", "?", ":name", "NULL", "ü", "🦆"]


@pytest.fixture
def release(store_url):
    with tether.Release(store_url, {"harm": 0.1}, max_silence=None, deadline=60) as made:
        yield made


def test_any_text_is_found_among_more_keys_than_one_query_takes(release):
    keys = [*ODD, *(f"key {k}" for k in range(IDS_PER_QUERY + 7))]
    release.assign(keys)
    contents = [key.encode() for key in keys]
    with release._store.reading() as connection:
        found = read_key_rows(connection, [*contents, b"nobody"])
        none = read_key_rows(connection, [])
    assert list(none) == []
    assert set(found) == set(contents)
    assert all(list(rows) == ["old"] and rows["old"].step == 1 for rows in found.values())
    assert len({rows["old"].id for rows in found.values()}) == len(keys)


def test_postgresql_looks_keys_up_by_their_index(postgres_url):
    """Without statistics it would read the whole table, and keep that plan while it grows."""
    with tether.Release(postgres_url, {"harm": 0.1}, max_silence=None, deadline=60) as release:
        release.assign([f"key {k}" for k in range(300)])
        with release._store.reading() as connection:
            read_key_rows(connection, [b"key 1"])
            query = "EXPLAIN SELECT id FROM tether_actions WHERE context = ANY('{a,b}'::bytea[])"
            plan = str(connection.exec_driver_sql(query).fetchall())
    assert "tether_keys" in plan
    assert "Seq Scan" not in plan


def test_the_log_of_a_file_collects_the_pages_of_many_batches(sqlite_url, monkeypatch):
    monkeypatch.setattr(key_rows, "USES_PER_LOOK", 1)
    with tether.Release(sqlite_url, {"harm": 0.1}) as release:

        def pages():
            with release._store.reading() as connection:
                return connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar()

        assert pages() == 1_000  # as long as the store is small
        release.assign([f"key {k}" for k in range(20_000)])
        with release._store.reading() as connection:
            stored = connection.exec_driver_sql("PRAGMA page_count").scalar()
        assert pages() == 4 * stored > 1_000


def test_the_log_of_a_small_file_stays_small(tmp_path):
    """Each of many small transactions adds pages to it."""
    path = tmp_path / "release.db"
    with tether.Release(path, {"harm": 0.1}) as release:
        for k in range(500):
            release.assign(f"key {k}")
        size = (tmp_path / "release.db-wal").stat().st_size
    assert 2_000_000 < size < 1_500 * 4_120
