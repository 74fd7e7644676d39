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
