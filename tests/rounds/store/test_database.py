"""What a store keeps, on both databases, and what it says where it cannot be one."""

from __future__ import annotations

import pytest

from tests.rounds.worker_process import open_run
from tether.rounds import StoreError
from tether.rounds.store.database import Store
from tether.rounds.store.queries import (
    read_settings,
    write_settings,
)


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
