"""Aimed policies after a restart, in other processes, and when they could not be stored."""

import numpy as np
import pytest

import tether
from tests.rounds.aims.aimed_runs import (
    ALPHA,
    AT_ALPHA,
    KNOWN,
    WORLD,
    act,
    begun,
    last_aim,
    new_run,
)
from tether.rounds import AimSettings, Controller, reopen, verify_store

GRID = np.linspace(0, 1, 40)
TRUE = AimSettings(loss_model=lambda x, doses: WORLD.harm(x, doses), choose=False)


def table(round_):
    return round_.policy.log_prob_all(GRID)


def test_a_restart_reopens_the_run_from_its_store_alone(tmp_path):
    store = tmp_path / "run.db"
    with new_run(store, aim=AT_ALPHA) as run:
        round_ = begun(run, 2, rows=500)
        assert last_aim(run).candidate == "aimed × 1"
        before, history = table(round_), run.history()
        assert history.rounds[-1].stored
        assert history.aims
    with reopen(store) as run:
        assert table(run.round) == pytest.approx(before, abs=1e-12)
        assert run.history().rounds == history.rounds
        act(run.round, np.random.default_rng(5), 60)
        assert run.begin(WORLD.optimized).calibration.exists  # it weights rows of round 2
    assert verify_store(store).ok


def test_a_round_that_another_process_began_is_the_same_here(tmp_path):
    store = tmp_path / "run.db"
    with new_run(store) as first, new_run(store) as second:
        begun(first, 2)
        assert table(second.round) == pytest.approx(table(first.round), abs=1e-12)
        act(second.round, np.random.default_rng(1), 50)
        assert first.begin(WORLD.optimized).number == 3
        assert second.round.number == 3


def test_shortlists_are_reopened(tmp_path):
    store, rng = tmp_path / "run.db", np.random.default_rng(0)
    score = tether.Gaussian(1.0)
    with Controller(
        tether.Shortlist(tether.Gaussian(0.0), size=4),
        alpha=0.15,
        store=store,
        aim=AT_ALPHA,
        alarm_risk=0.9,
    ) as run:
        taken = run.begin().act(rng.random(300), rng)
        run.observe(taken.ids, ((taken.actions > 1) & (taken.contexts > 0.5)).astype(float))
        round_ = run.begin(score)
        assert last_aim(run).candidate == "aimed × 1"
        rows = run._space.stored_contexts(GRID, rng)
        before = round_.policy.pick.log_prob_all(rows)
    with reopen(store) as run:
        assert run.round.policy.pick.log_prob_all(rows) == pytest.approx(before, abs=1e-12)
        run.round.act(GRID, rng)
    assert verify_store(store).ok


def test_a_policy_that_is_passed_again_is_aimed_as_before(tmp_path):
    store = tmp_path / "run.db"
    optimized = tether.Categorical.from_logits(
        lambda x: np.tile([0.0, 1, 2, 3], (len(x), 1)), actions=[0, 1, 2, 3]
    )
    with new_run(store) as run:
        before = table(begun(run, 2, optimized=optimized))
        assert not run.history().rounds[-1].stored
        assert last_aim(run).digest is not None
    with new_run(store) as run, pytest.raises(ValueError, match="Pass policies="):
        assert run.round
    with new_run(store, policies={"round 2": optimized}) as run:
        assert table(run.round) == pytest.approx(before, abs=1e-12)
    found = verify_store(store)
    assert found.ok
    assert "not checked: round 2" in str(found)


def test_a_loss_model_that_could_not_be_stored(tmp_path):
    store = tmp_path / "run.db"
    with new_run(store, aim=TRUE) as run:
        round_ = begun(run, 2)
        aimed, before = round_.policy.optimized, table(round_)
        assert "no import path" in last_aim(run).problem
        assert not run.history().rounds[-1].stored
    with pytest.raises(ValueError, match="pass aim="):
        reopen(store)
    with reopen(store, aim=TRUE) as run, pytest.raises(ValueError, match="'round 2, aimed'"):
        assert run.round
    with reopen(store, aim=TRUE, policies={"round 2, aimed": aimed}) as run:
        assert table(run.round) == pytest.approx(before, abs=1e-12)
    assert verify_store(store).ok


def test_a_plain_choice_needs_nothing_else(tmp_path):
    store = tmp_path / "run.db"
    aim = AimSettings(loss_model=lambda x, doses: np.full(len(doses), ALPHA / 2), choose=False)
    with new_run(store, aim=aim) as run:
        before = table(begun(run, 2))
        assert last_aim(run).candidate == "plain"
    with reopen(store, aim=aim) as run:
        assert table(run.round) == pytest.approx(before, abs=1e-12)


def test_a_run_that_was_exported_and_imported_aims_on(tmp_path):
    pytest.importorskip("pyarrow")
    store, other = tmp_path / "run.db", tmp_path / "other.db"
    with new_run(store) as run:
        before = table(begun(run, 2))
    tether.rounds.export_run(store, tmp_path / "run.parquet")
    tether.rounds.import_run(tmp_path / "run.parquet", other)
    with reopen(other, aim=KNOWN) as run:
        assert table(run.round) == pytest.approx(before, abs=1e-12)
