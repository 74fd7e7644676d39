"""False claims stay within alpha, true ones are kept, and a learned score keeps more of them."""

import numpy as np
import pytest
from experiments.medical_qa import learned
from experiments.medical_qa.claims import Questions, false_share_and_recall

import tether


def test_false_share_and_recall_by_hand():
    claims = tether.Claims([0.9, 0.5, 0.1, 0.8, 0.2, 0.3], [1, 0, 1, 0, 0, 1], offsets=[0, 3, 5, 6])
    share, recall = false_share_and_recall(claims, 0.4)
    assert share == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert recall == pytest.approx((1 / 2 + 0) / 2)  # the second question has no true claim
    assert false_share_and_recall(claims, np.inf) == (0.0, 0.0)


def test_features_know_nothing_of_other_answers_or_of_labels():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 7])
    scores = {name: rng.random(7) for name in ("selfeval", "logprob", "frequency")}
    questions = Questions(scores, np.ones(7, bool), offsets, np.array(["a", "b"]))
    changed = {name: np.where(np.arange(7) < 3, 9.0, column) for name, column in scores.items()}
    other = Questions(changed, np.zeros(7, bool), offsets, np.array(["a", "b"]))
    assert (learned.features(questions)[3:] == learned.features(other)[3:]).all()
    ranks = learned.features(questions)[:, 6:9] * np.diff(offsets)[questions.question][:, None]
    for first, stop in ((0, 3), (3, 7)):
        for column in range(3):
            values = list(scores.values())[column][first:stop]
            assert (ranks[first:stop, column] == values.argsort().argsort()).all()
