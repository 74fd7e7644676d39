"""A run whose policies list the same actions in another order."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tether

WORDS = ["wait", "mail", "call"]  # by hand; a model sorts them
SAFE = tether.Categorical.from_probabilities([0.6, 0.3, 0.1], actions=WORDS)
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(300, 2))
LABELS = np.where(FEATURES[:, 0] > 0.6, "wait", np.where(FEATURES[:, 1] > 0, "mail", "call"))
MODEL = LogisticRegression().fit(FEATURES, LABELS)


def loss(taken):
    return (taken.actions == "call") * 0.6


def by_hand():
    """The model with its actions in the order of the safe policy."""
    order = [list(MODEL.classes_).index(word) for word in WORDS]
    return tether.Categorical.from_probabilities(
        lambda contexts: MODEL.predict_proba(contexts)[:, order], actions=WORDS
    )


def served(store, optimized, contexts):
    run = tether.Controller(SAFE, store=store, alpha=0.15, missing="exclude", alarm_risk=0.9)
    rng = np.random.default_rng(1)
    taken = run.begin().act(contexts, rng)
    run.observe(taken.ids, loss(taken))
    begun = run.begin(optimized)
    return run, begun


def test_another_order_gives_the_same_round(tmp_path):
    contexts = np.random.default_rng(2).normal(size=(500, 2))
    runs = [
        served(f"sqlite:///{tmp_path}/{name}.db", policy, contexts)
        for name, policy in (("model", MODEL), ("hand", by_hand()))
    ]
    (run, first), (other, second) = runs
    assert 0 < first.calibration.beta < np.inf
    acted = [each.act(contexts, np.random.default_rng(3)).actions for each in (first, second)]
    for word in WORDS:  # rows are assigned to calibration at random, so betas are not equal
        assert np.mean(acted[0] == word) == pytest.approx(np.mean(acted[1] == word), abs=0.15)
    scores = first.policy.log_prob(contexts, acted[0])
    optimized = by_hand().log_prob(contexts, acted[0])
    safe = SAFE.log_prob(contexts, acted[0])
    beta = first.calibration.beta
    table = np.minimum(by_hand().log_prob_all(contexts), np.log(beta) + SAFE.log_prob_all(contexts))
    expected = np.minimum(optimized, np.log(beta) + safe) - np.log(np.exp(table).sum(axis=1))
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    run.close()
    other.close()
