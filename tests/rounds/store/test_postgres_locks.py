"""Who waits for whom in PostgreSQL."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

import pytest

from tests.rounds.frozen_processes import PATIENCE_SECONDS
from tests.rounds.postgres_server import name_of
from tether.rounds import StoreError
from tether.rounds.store import database
from tether.rounds.store.database import Store
from tether.rounds.store.postgres_locks import LANE_LOCK


@pytest.fixture
def store(postgres_url):
    opened = Store(postgres_url, deadline=PATIENCE_SECONDS)
    yield opened
    opened.close()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(4) as pool:
        yield pool


def wait_until(server, url, query, count):
    """Wait until a query about the locks of a database returns so many."""
    end = time.monotonic() + PATIENCE_SECONDS
    while server.tell(query, name_of(url)) != count:
        assert time.monotonic() < end
        time.sleep(0.005)


LOCKS = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)
WAITING = f"{LOCKS} AND NOT granted"


def update(store, begun, go_on):
    """Update the monitors, as long as `go_on` says; whether it was necessary."""
    with store.updating_monitors() as connection:
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return connection is not None


def test_one_updates_the_monitors_one_waits_and_the_others_leave_it_to_that_one(
    store, server, postgres_url, threads
):
    events = [Event() for _ in range(6)]
    first = threads.submit(update, store, events[0], events[1])
    assert events[0].wait(PATIENCE_SECONDS)
    second = threads.submit(update, store, events[2], events[3])
    wait_until(server, postgres_url, WAITING, 1)
    for _ in range(3):
        with store.updating_monitors() as connection:
            assert connection is None
    events[1].set()
    assert first.result(PATIENCE_SECONDS)
    assert events[2].wait(PATIENCE_SECONDS)
    # the second one may have read already: what is stored from now on is for the next one
    third = threads.submit(update, store, events[4], events[5])
    wait_until(server, postgres_url, WAITING, 1)
    events[3].set()
    events[5].set()
    assert second.result(PATIENCE_SECONDS)
    assert third.result(PATIENCE_SECONDS)


def test_who_waited_in_vain_is_not_waited_for(store, server, postgres_url, threads, monkeypatch):
    events = [Event() for _ in range(3)]
    first = threads.submit(update, store, events[0], events[1])
    assert events[0].wait(PATIENCE_SECONDS)
    impatient = Store(postgres_url, deadline=PATIENCE_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(database, "remaining", lambda: 0.05)  # for the locks alone
        with pytest.raises(StoreError, match="lock timeout"), impatient.updating_monitors():
            pass
    second = threads.submit(update, store, Event(), events[2])
    wait_until(server, postgres_url, WAITING, 1)
    events[1].set()
    events[2].set()
    assert first.result(PATIENCE_SECONDS)
    assert second.result(PATIENCE_SECONDS)
    impatient.close()


def test_a_lane_is_taken_only_once_nobody_writes_alone(store, server, postgres_url, threads):
    def write():
        with store.writing():
            pass

    with store.writing(exclusive=True):
        waiting = [threads.submit(write) for _ in range(3)]
        wait_until(server, postgres_url, WAITING, 3)
        taken = server.tell(f"{LOCKS} AND classid = {LANE_LOCK}", name_of(postgres_url))
        assert taken == 1  # by the one who writes alone
    wait(waiting, PATIENCE_SECONDS)
    assert all(each.result() is None for each in waiting)


def test_a_client_that_asks_for_nothing_loses_its_locks(postgres_url):
    """As a process does that was stopped while it had them: nobody could raise an alarm."""
    holder, other = (Store(postgres_url, deadline=each) for each in (0.5, PATIENCE_SECONDS))

    def hold():
        with holder.writing(exclusive=True) as writer:
            with other.writing(exclusive=True):  # waits until the server ends the transaction
                pass
            writer.connection.exec_driver_sql("SELECT 1")

    with pytest.raises(StoreError):
        hold()
    with holder.writing(exclusive=True):  # on a new connection
        pass
    holder.close()
    other.close()
