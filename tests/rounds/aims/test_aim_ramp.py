"""Aim, then ramp: a policy is tilted before its share grows with its own rows."""

import numpy as np
import pytest

import tether
from tests.rounds.aims.aimed_runs import KNOWN, WORLD
from tether.rounds import Controller, reopen, verify_store

RAMP = {"alpha": 0.13, "family": "ramp", "actions_per_step": 120, "alarm_risk": 0.9}


def act(round_, rng, rows=400):
    x = rng.random(rows)
    taken = round_.act(x, rng)
    round_.observe(taken.ids, *WORLD.outcome(x, taken.actions, rng))


def ramped(store, aim):
    """A run whose second policy has had three steps."""
    rng = np.random.default_rng(0)
    run = Controller(WORLD.safe, store=store, aim=aim, **RAMP)
    act(run.begin(), rng, 400)
    round_ = run.begin(WORLD.optimized)
    for _ in range(3):
        act(round_, rng, 120)
    return run


def test_what_is_ramped_is_the_aimed_policy(tmp_path):
    store = tmp_path / "run.db"
    with ramped(store, KNOWN) as run:
        history = run.history()
        first, last = history.rounds[1], history.rounds[-1]
        assert first.aim == last.aim
        assert first.aim.candidate == "aimed × 1"
        assert first.aim.aimed == first.aim.predicted
        assert first.aim.aimed["loss"] == pytest.approx(0.13, rel=1e-3)
        assert first.aim.plain_beta is None
        assert last.share > 0
        served = run._registry.ramped(last.number)
        assert WORLD.expected(served)[0] < WORLD.expected(WORLD.optimized)[0]
        assert set(last.realized) == {"loss"}
        page = tether.report.render(history)
        assert "Predicted and realized loss" in page
    with reopen(store, aim=KNOWN) as run:
        act(run.round, np.random.default_rng(9), 20)
    found = verify_store(store)
    assert found.ok
    assert "predictions: those of 1 rounds" in str(found)


def test_a_ramp_without_training_rows_is_not_aimed():
    with Controller(WORLD.safe, store="sqlite://", aim=True, **RAMP) as run:
        run.begin(WORLD.optimized)
        assert run.history().rounds[-1].aim.why == "there are no training rows yet"
        with pytest.raises(TypeError, match="finitely many actions"):
            run.begin(tether.Gaussian(0.0))
