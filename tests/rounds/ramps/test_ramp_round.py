"""Acting in a ramp: who answers, in which order, and what is stored."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tether.rounds.errors import RoundOverError
from tether.rounds.ramps import begin_ramp
from tether.rounds.ramps.ramp_round import CoinSampler, RampRound
from tether.rounds.store.deadline import remaining


class Echo:
    """Answers with the context plus a number, so that an action says who answered which context."""

    def __init__(self, plus):
        self.plus = plus

    def sample(self, contexts, rng):
        return np.asarray(contexts)[:, 0] + self.plus


class Unavailable(AlwaysTakes):
    def sample(self, contexts, rng):
        raise ConnectionError("no route to host")


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


def test_every_row_says_who_answered_and_keeps_its_context():
    run, rng = started(safe=Echo(0.25))
    round_ = run.begin(Echo(0.75))
    contexts = np.arange(500.0).reshape(-1, 1)
    taken = round_.act(contexts, rng)
    assert np.array_equal(np.floor(taken.actions), contexts[:, 0])
    run._refresh()
    mine = run._rows.round == 2
    assert np.array_equal(run._rows.ids[mine], taken.ids)
    by_new = taken.actions % 1 == 0.75
    assert np.array_equal(run._rows.served[mine], np.where(by_new, 2, 0))
    assert 0 < by_new.sum() < 500
    record = run.history().rounds[-1]
    assert (record.policy_rows, record.safe_rows) == (by_new.sum(), 500 - by_new.sum())
    assert np.isnan(run.training_rows().log_prob).all()


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


def test_a_policy_that_is_unavailable_leaves_the_call_to_the_safe_policy():
    run, rng = started()
    taken = run.begin(Unavailable(1)).act(300, rng)
    assert "no route to host" in taken.failure
    assert set(taken.actions) == {0}
    record = run.history().rounds[-1]
    assert (record.fallback_rows, record.safe_rows, record.policy_rows) == (300, 300, 0)


def test_a_round_shows_its_share_and_what_acts():
    run, rng = started()
    safe = run.round
    assert isinstance(safe, RampRound)
    assert (safe.share, safe.ramp_share, safe.policy) == (0, None, run.safe)
    round_ = run.begin(AlwaysTakes(1))
    assert (round_.reference, round_.ramp_share.share) == (0, round_.share)
    assert repr(round_) == f"RampRound(2, share={round_.share:.6g})"
    assert set(round_.policy.sample(1000, rng)) == {0, 1}
    with pytest.raises(AttributeError, match="has a share, not a beta"):
        _ = round_.beta


def test_logs_are_recorded_in_rounds_without_a_policy_alone():
    run, rng = started()
    run.round.record(None, np.zeros(30, np.int64), rng)
    round_ = run.begin(AlwaysTakes(1))
    with pytest.raises(ValueError, match="round 2 is not a round of the safe policy"):
        round_.record(None, np.zeros(30, np.int64), rng)


def test_the_safe_policy_acts_while_the_store_does_not_answer(tmp_path):
    run, rng = started(store=tmp_path / "run.db", fallback="safe")
    round_ = run.begin(AlwaysTakes(1))
    taken = round_._act_in_outage(20, rng, None, "attempt", tether.rounds.StoreError("gone"))
    assert set(taken.actions) == {0}
    run.observe(taken.ids, np.zeros(20))
    assert run.history().rounds[-1].fallback_rows == 20
    run.close()
    assert tether.rounds.verify_store(tmp_path / "run.db").ok


def test_a_step_may_take_longer_to_begin_than_a_call_may_wait_for_the_store(tmp_path, monkeypatch):
    run, rng = started(store=tmp_path / "run.db", fallback="safe", actions_per_step=20)
    round_ = run.begin(AlwaysTakes(1))
    round_.act(20, rng)
    read_rows, left = begin_ramp._read_rows, []

    def look_at_the_clock(run):
        left.append(remaining())
        return read_rows(run)

    monkeypatch.setattr(begin_ramp, "_read_rows", look_at_the_clock)
    round_.act(20, rng, key="the first of the next step")
    assert left == [math.inf]  # only the transactions in it have deadlines, of many calls
    assert run.round.number == round_.number + 1


def test_a_step_that_could_not_begin_is_an_outage(tmp_path, monkeypatch):
    run, rng = started(store=tmp_path / "run.db", fallback="safe", actions_per_step=20)
    round_ = run.begin(AlwaysTakes(1))
    round_.act(20, rng)

    def fail(run):
        raise tether.rounds.StoreError("gone")

    monkeypatch.setattr(begin_ramp, "_read_rows", fail)
    assert "gone" in round_.act(20, rng).failure
    assert run._recorder.outage.is_believed
