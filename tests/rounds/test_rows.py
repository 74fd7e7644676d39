"""Rows are read in parts, and only what is new."""

import numpy as np
import pytest

from tests.rounds.worlds import WORLDS, one_round
from tether.rounds import Controller
from tether.rounds.store import rows


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_in_parts_and_later_as_at_once(world, monkeypatch):
    rng = np.random.default_rng(0)
    run = Controller(world.safe(), alpha=0.25, watched=0.9, store="sqlite://")
    late = rows.Rows()
    monkeypatch.setattr(rows, "AT_ONCE", 37)
    for number in (1, 2):
        one_round(run, world, number, 100, rng)
        with run._store.reading() as connection:
            late.refresh(connection)
    monkeypatch.setattr(rows, "AT_ONCE", 10_000)
    whole = rows.Rows()
    with run._store.reading() as connection:
        whole.refresh(connection)
    assert len(whole) == len(late) == 200
    for name in vars(whole):
        np.testing.assert_array_equal(getattr(whole, name), getattr(late, name))
    assert not np.isnan(whole.loss).any()
