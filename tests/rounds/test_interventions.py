"""What people do to a run: at once in every process, with a name, and for good."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.rounds.worker_process import open_run, two_rounds
from tests.rounds.worlds import World, one_round
from tether._core.contexts import take
from tether.rounds import Controller, calibrate_round, read_history, resume


def test_a_halt_reaches_every_process_with_its_next_call(store_url):
    with open_run(store_url) as one, open_run(store_url) as other:
        two_rounds(one)
        rng, current = np.random.default_rng(0), other.round
        assert current.beta > 0
        one.halt("a fire drill", actor="Ada")
        taken = current.act(rng.integers(3, size=5), rng)
        other._refresh()
        assert (other._rows.served[np.isin(other._rows.ids, taken.ids)] == 0).all()
        resume(store_url, "it is over", "Bob")
        taken = current.act(rng.integers(3, size=5), rng)
        other._refresh()
        assert (other._rows.served[np.isin(other._rows.ids, taken.ids)] == 2).all()
    done = [(each.act, each.actor, each.reason) for each in read_history(store_url).audit]
    assert done == [("halt", "Ada", "a fire drill"), ("resume", "Bob", "it is over")]


@pytest.mark.parametrize("name", ["tables", "pool"])
def test_the_rows_of_a_retired_round_are_in_no_later_log(name, tmp_path, monkeypatch):
    """Its policy is not needed any more, and the mixture is that of the others."""
    world, rng, logs = World(name), np.random.default_rng(0), []

    def noted(log, *arguments, **options):
        logs.append(log)
        return tether.calibrate(log, *arguments, **options)

    options = {"alpha": 0.3, "alarm_risk": 0.9, "calibration_share": 1, "store": tmp_path / "a.db"}
    with Controller(world.safe(), **options) as run:
        third = [one_round(run, world, number, 150, rng)[0] for number in (1, 2, 3)][-1]
    with Controller(world.safe(), policies={"round 3": world.optimized(3)}, **options) as run:
        run.retire(2, "the disk failed", actor="Ada")
        monkeypatch.setattr(calibrate_round, "calibrate", noted)
        run.begin(world.optimized(4))
        rows = run._rows
        kept = np.flatnonzero(rows.served != 2)
        contexts, actions = take(rows.contexts, kept), rows.actions[kept]
        assert 0 < len(kept) < len(rows)
        np.testing.assert_array_equal(logs[0].loss["loss"], rows.losses[kept, 0])
        counts = {number: (rows.served == number).sum() for number in (0, 3)}
        densities = {0: world.safe(), 3: third.policy}
        mixed = sum(
            counts[number] * np.exp(policy.log_prob(contexts, actions))
            for number, policy in densities.items()
        )
        np.testing.assert_allclose(np.exp(logs[0].log_mix), mixed / len(kept), rtol=1e-9)
        assert run.history().rounds[1].retired
