"""Acting in a ramp: who answers, in which order, and what is stored."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tether.rounds.errors import RoundOverError
from tether.rounds.ramps.ramp_round import CoinSampler


class Echo:
    """Answers with the context plus a number, so that an action says who answered which context."""

    def __init__(self, plus):
        self.plus = plus

    def sample(self, contexts, rng):
        return np.asarray(contexts)[:, 0] + self.plus


def started(*, rows=200, safe=None, **given):
    """A run whose safe policy has taken some actions, without harm."""
    arguments = {"alpha": 0.2, "store": "sqlite://", "family": "ramp"} | given
    run = tether.Controller(AlwaysTakes(0) if safe is None else safe, **arguments)
    rng = np.random.default_rng(0)
    contexts = rows if safe is None else np.zeros((rows, 1))
    taken = run.begin().act(contexts, rng)
    run.observe(taken.ids, np.zeros(rows))
    return run, rng


def test_the_coin_has_the_share_and_keeps_the_order_of_contexts():
    rng = np.random.default_rng(1)
    contexts = np.arange(10_000.0).reshape(-1, 1)
    actions, is_new = CoinSampler(Echo(0.25), Echo(0.75), 0.3).draw(contexts, rng)
    assert np.array_equal(actions - contexts[:, 0] == 0.75, is_new)
    assert np.array_equal(np.floor(actions), contexts[:, 0])
    assert abs(is_new.mean() - 0.3) < 0.02
    assert len(CoinSampler(Echo(0), Echo(1), 0.5).sample(np.empty((0, 1)), rng)) == 0
    for share, all_new in ((0.0, False), (1.0, True)):
        assert (CoinSampler(Echo(0), Echo(1), share).draw(contexts, rng)[1] == all_new).all()


def test_a_call_is_repeated_by_its_key_also_after_its_step(tmp_path):
    run, rng = started(actions_per_step=50, safe=Echo(0.25), store=tmp_path / "run.db")
    round_ = run.begin(Echo(0.75))
    contexts = np.arange(60.0).reshape(-1, 1)
    taken = round_.act(contexts, rng, key="a")
    round_.act(contexts, rng)  # in the next step
    assert run.round.number == 3
    again = round_.act(contexts, rng, key="a")
    assert np.array_equal(again.ids, taken.ids)
    assert np.array_equal(again.actions, taken.actions)
    run.begin()
    assert np.array_equal(round_.act(contexts, rng, key="a").ids, taken.ids)
    with pytest.raises(RoundOverError, match="round 2 is over: round 4 has begun"):
        round_.act(contexts, rng)
