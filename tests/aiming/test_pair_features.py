"""Features of pairs: labels have indicators, numbers that hardly repeat do not."""

import numpy as np

from tether.aiming.pair_features import PairFeatures
from tether.policies import ShortlistRows


def test_few_labels_have_indicators():
    actions = np.arange(30) % 3
    assert PairFeatures(30, actions)(3, np.arange(3)).tolist() == np.eye(3).tolist()


def test_text_always_has_indicators():
    assert PairFeatures(2, np.array(["a", "b"]))(1, np.array(["b"])).tolist() == [[0.0, 1.0]]


def test_numbers_that_hardly_repeat_are_numbers():
    actions = np.random.default_rng(0).normal(size=50)
    found = PairFeatures(50, actions)(2, np.array([0.5, 2.0]))
    assert found.tolist() == [[0.5, 0.25], [2.0, 4.0]]


def test_candidates_and_positions_are_contexts_and_actions():
    rng = np.random.default_rng(0)
    contexts, candidates = rng.normal(size=(30, 2)), rng.normal(size=(30, 4))
    taken = rng.integers(4, size=30)
    rows = ShortlistRows(contexts, candidates)
    actions = rows.picked(taken)
    of_positions, plain = PairFeatures(rows, taken), PairFeatures(contexts, actions)
    assert np.array_equal(of_positions(rows, taken), plain(contexts, actions))
