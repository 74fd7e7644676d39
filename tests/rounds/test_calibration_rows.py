"""Scores are computed once, and a policy that changed since is refused."""

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import MovingGaussian, begun_run
from tether.rounds import Controller


def test_a_policy_trained_in_place_is_refused_when_the_next_round_begins():
    policy = MovingGaussian(0.6)
    run, round_, rng = begun_run(policy)
    run.observe(round_.act(100, rng).ids, np.zeros(100))
    policy.mean = 1.2
    with pytest.raises(ValueError, match=r"policy of round 2.*trained further in place"):
        run.begin(policy)
    assert run.begin().number == 3  # nothing was written


def test_a_classifier_refitted_in_place_is_refused():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    model = LogisticRegression().fit(x, x[:, 0] > 0.8)
    safe = tether.Categorical.from_probabilities([0.9, 0.1], actions=[False, True])
    run = Controller(safe, alpha=0.3, alarm_risk=0.9, store="sqlite://")
    for number in (1, 2):
        optimized = None if number == 1 else tether.Categorical.from_classifier(model)
        taken = run.begin(optimized).act(x, rng)
        run.observe(taken.ids, (taken.actions & (x[:, 1] > 0)).astype(float))
    model.fit(x, x[:, 1] > 0)
    with pytest.raises(ValueError, match="trained further in place"):
        run.begin(tether.Categorical.from_classifier(model))


def test_scores_of_a_policy_that_was_refused_are_not_those_of_the_next():
    names = ["a", "b", "c"]
    safe, refused, accepted = (
        tether.Categorical.from_probabilities(shares, actions=names)
        for shares in ([0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.3, 0.7, 0.0])
    )
    betas = []
    for tries_first in (True, False):
        run, rng = Controller(safe, alpha=0.3, store="sqlite://"), np.random.default_rng(4)
        taken = run.begin().act(np.zeros((200, 1)), rng)
        run.observe(taken.ids, 0.4 * (taken.actions == "b") + 0.05)
        if tries_first:
            with pytest.raises(ValueError, match="takes actions that the safe policy never takes"):
                run.begin(refused)
        betas.append(run.begin(accepted).calibration.log_beta)
        run._scores.refresh()
        [stored] = run._scores.read("log_optimized_all", [2], 0, 100, 3).values()
        stored = stored[~np.isnan(stored).any(axis=1)]
        np.testing.assert_array_equal(
            stored, accepted.log_prob_all(len(stored)).repeat(len(stored), 0)
        )
    assert betas[0] == betas[1]
    assert np.isfinite(betas[0])
