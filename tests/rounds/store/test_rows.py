"""Rows are read in pieces, and only what is new."""

import numpy as np
import pytest

from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import Controller
from tether.rounds.store import followed_lane, rows


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_rows_read_in_pieces_are_those_read_at_once(world, monkeypatch):
    rng = np.random.default_rng(0)
    run = Controller(world.safe(), alpha=0.25, alarm_risk=0.9, store="sqlite://")
    late = rows.Rows()
    monkeypatch.setattr(followed_lane, "ROWS_PER_CHUNK", 37)
    for number in (1, 2):
        one_round(run, world, number, 100, rng)
        with run._store.reading() as connection:
            late.refresh(connection)
    monkeypatch.setattr(followed_lane, "ROWS_PER_CHUNK", 10_000)
    whole = rows.Rows()
    with run._store.reading() as connection:
        whole.refresh(connection)
    assert len(whole) == len(late) == 200
    for name in vars(whole):
        np.testing.assert_array_equal(getattr(whole, name), getattr(late, name))
    assert not np.isnan(whole.losses).any()


class Cut:
    """Numpy, until the count is over: then somebody interrupts."""

    def __init__(self, calls):
        self.calls = calls

    def __getattr__(self, name):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return getattr(np, name)


def test_an_interrupt_leaves_all_columns_of_one_length(monkeypatch):
    world, rng = World("tables"), np.random.default_rng(2)
    run = Controller(world.safe(), alpha=0.25, alarm_risk=0.9, store="sqlite://")
    one_round(run, world, 1, 100, rng)
    cuts = 0
    for calls in range(60):
        late = rows.Rows()
        monkeypatch.setattr(rows, "np", Cut(calls))
        try:
            with run._store.reading() as connection:
                late.refresh(connection)
        except KeyboardInterrupt:
            cuts += 1
        monkeypatch.setattr(rows, "np", np)
        contexts = 0 if isinstance(late.contexts, int) else len(late.contexts)
        names = ("round", "served", "losses", "reward", "withdrawn", "log_safe", "log_prob")
        assert {len(getattr(late, name)) for name in names} == {contexts}
        assert not late.withdrawn.any()
        with run._store.reading() as connection:
            late.refresh(connection)  # and it goes on where it was
        assert len(late) == late.observed.sum() == 100
    assert 10 < cuts < 60
