"""Actions and losses are stored once, whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rounds.small_runs import controller
from tests.rounds.store_invariants import check_whole, read_tables
from tests.rounds.worker_process import begin_and_act, open_run
from tests.rounds.worlds import World
from tether.rounds import LossesMissingError


def test_losses_are_observed_late_in_any_order_and_once():
    world, rng = World("marginal"), np.random.default_rng(7)
    run = controller(world)
    first = run.begin()
    taken = first.act(100, rng)
    with pytest.raises(LossesMissingError, match=r"round 1 has 0 of \d+ losses"):
        run.begin(world.optimized(2))
    order = rng.permutation(100)
    first.observe(taken.ids[order[:60]], np.zeros(60))
    assert sorted(run.pending().ids) == sorted(taken.ids[order[60:]])
    with pytest.raises(ValueError, match="already observed or withdrawn with another result"):
        first.observe(taken.ids[order[50:70]], np.ones(20))
    assert len(run.pending()) == 40  # nothing of the refused call was stored
    first.observe(taken.ids[order[50:60]], np.zeros(10))  # the same again changes nothing
    with pytest.raises(ValueError, match=r"ids 101, 7000 are unknown \(2 of 3\)"):
        first.observe([taken.ids[order[60]], 101, 7000], np.zeros(3))
    with pytest.raises(ValueError, match="more than once"):
        first.observe([1, 1], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"losses\[1\] is 1.5: expected a loss of at most bound"):
        first.observe(taken.ids[order[60:62]], [0.5, 1.5])
    with pytest.raises(ValueError, match="losses has 3 rows but ids has 2"):
        first.observe(taken.ids[order[60:62]], [0, 0, 0])
    with pytest.raises(TypeError, match="ids must be integers returned by `act`"):
        first.observe([0.5], [0.0])
    with pytest.raises(ValueError, match=r"rewards\[0\] is nan"):
        first.observe([taken.ids[order[60]]], [0.0], [np.nan])
    second = run.begin()  # the safe policy may serve meanwhile
    second.observe(taken.ids[order[60:]], np.zeros(40))  # late, through another round
    assert len(run.pending()) == 0
    assert run.begin(world.optimized(3)).beta > 0


def test_losses_are_stored_once_on_both_databases(store_url):
    with open_run(store_url) as run:
        _, taken = begin_and_act(run)
        late = taken.ids[::-1]
        run.observe(late[:20], np.linspace(0, 1, 20), rewards=np.arange(20))
        with pytest.raises(
            ValueError, match=r"ids 11, 12 were already observed or withdrawn with .* \(2 of 4\)"
        ):
            run.observe([9, 10, 11, 12], [0, 0, 0, 0])
        with pytest.raises(ValueError, match=r"ids 0, 31 are unknown \(2 of 3\)"):
            run.observe([31, 1, 0], [0, 0, 0])
        with pytest.raises(ValueError, match="ids 3 occur more than once"):
            run.observe([3, 3], [0, 0])
        assert run.pending().ids.tolist() == list(range(1, 11))
    with open_run(store_url) as run:
        run.withdraw([1, 2], "never carried out")
        with pytest.raises(ValueError, match="ids 1 were already observed or withdrawn"):
            run.observe([1], [0.5])
        run.observe(range(3, 11), np.full(8, 0.25))
        assert not len(run.pending())
        tables = read_tables(run)
        check_whole(tables)
        found = {
            row["action"]: (row["loss"], row["reward"]) for row in tables["tether_observations"]
        }
        assert found[30] == (0.0, 0.0)
        assert found[11] == (1.0, 19.0)
        assert found[2] == (None, None)
        assert found[5] == (0.25, None)
