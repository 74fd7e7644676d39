"""Training rows as aiming takes them: no calibration row is among them."""

import numpy as np
import pytest

import tether
from tests.rounds.aims.aimed_runs import WORLD, act, begun, new_run
from tests.rounds.small_runs import refreshed_rows
from tether.rounds.aims import training_log
from tether.rounds.aims.training_log import (
    last_actions,
    prediction_contexts,
    read_rows_to_fit,
    read_training_log,
)


def read(run, rng=None, optimized=WORLD.optimized, retired=frozenset()):
    rows = refreshed_rows(run)
    rng = rng or np.random.default_rng(0)
    return read_training_log(rows, ["loss"], run._registry, optimized, retired, rng)


def test_the_rows_are_the_training_rows():
    with new_run() as run:
        assert read(run) is None
        begun(run, 3)
        found, rows = read(run), run.training_rows()
        for logged in (found.to_fit, found.to_choose, read_rows_to_fit(run._rows, ["loss"], None)):
            assert np.array_equal(logged.contexts, rows.contexts)
            assert np.array_equal(logged.actions, rows.actions)
            assert np.array_equal(logged.losses["loss"], rows.loss)
            assert np.array_equal(logged.rewards, rows.reward)
        assert found.chosen_by == "reward"
        seen = prediction_contexts(run._rows, last_actions(run._rows.seen))
        assert np.array_equal(seen, rows.contexts)


def test_the_mixture_that_took_the_actions_has_the_counts_of_the_rows():
    with new_run() as run:
        rng = np.random.default_rng(0)
        act(run.begin(), rng)
        assert read(run).logged_by is None
        act(run.begin(WORLD.optimized), rng, 100)
        found, served = read(run), run._rows.served[~run._rows.calibration]
        counts = np.array([(served == 0).sum(), (served == 2).sum()])
        assert found.logged_by.weights == pytest.approx(counts / counts.sum())
        log_prob = found.logged_by.log_prob(found.to_choose.contexts, found.to_choose.actions)
        parts = [
            run._registry.policy(number).log_prob(found.to_choose.contexts, found.to_choose.actions)
            for number in (0, 2)
        ]
        mixed = np.log((counts[:, None] * np.exp(parts)).sum(axis=0) / counts.sum())
        assert log_prob == pytest.approx(mixed)
        retired = read(run, retired=frozenset({2}))
        assert len(retired.to_fit) == (served == 0).sum()
        assert retired.logged_by is None


def test_without_rewards_the_log_ratio_is_the_reward():
    certain = tether.Categorical.from_probabilities([0.0, 0.0, 0.0, 1.0])
    with new_run() as run:
        begun(run, 2, rewarded=False)
        found = read(run)
        actions = found.to_choose.actions
        ratio = np.exp(WORLD.optimized.log_prob_all(1) - WORLD.safe.log_prob_all(1))[0][actions]
        assert found.chosen_by == "log ratio"
        assert np.exp(found.to_choose.rewards) == pytest.approx(0.99 * ratio + 0.01)
        assert np.isfinite(read(run, optimized=certain).to_choose.rewards).all()


def test_of_some_rewards_the_rows_with_one_are_used():
    with new_run() as run:
        begun(run, 2, rewarded=False)
        act(run.begin(), np.random.default_rng(1), 50)
        found = read(run)
        assert (
            len(found.to_fit)
            > len(found.to_choose)
            == (~np.isnan(run.training_rows().reward)).sum()
        )


def test_of_many_rows_a_sample_is_taken(monkeypatch):
    monkeypatch.setattr(training_log, "MAX_ROWS_TO_FIT", 60)
    monkeypatch.setattr(training_log, "MAX_ROWS_TO_COMPARE", 40)
    monkeypatch.setattr(training_log, "MAX_CONTEXTS_TO_PREDICT", 30)
    with new_run() as run:
        begun(run, 2)
        found, again = read(run), read(run)
        contexts = set(run.training_rows().contexts)
        assert (len(found.to_fit), len(found.to_choose)) == (60, 40)
        assert set(found.to_choose.contexts) <= set(found.to_fit.contexts) <= contexts
        assert np.array_equal(found.to_choose.contexts, again.to_choose.contexts)
        seen = prediction_contexts(run._rows, last_actions(run._rows.seen))
        assert len(set(seen)) == 30
        assert set(seen) <= contexts


def test_contexts_of_later_rows_take_no_part_in_a_prediction():
    with new_run() as run:
        begun(run, 2)
        rows = refreshed_rows(run)
        seen = last_actions(rows.seen)
        before = prediction_contexts(rows, seen)
        act(run.round, np.random.default_rng(3), 40)
        assert np.array_equal(prediction_contexts(refreshed_rows(run), seen), before)
        assert prediction_contexts(rows, {}) is None
