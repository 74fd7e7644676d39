"""Features of pairs: labels have indicators, numbers that hardly repeat do not."""

from types import SimpleNamespace

import numpy as np
import pytest

import tether
from tether.aiming.pair_features import LARGEST_POLICY_SCORE, PairFeatures
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


def test_a_missing_number_counts_as_the_mean_of_its_column():
    contexts = np.array([[1.0, np.nan], [3.0, np.nan], [np.inf, np.nan]] * 4)
    features = PairFeatures(contexts, np.zeros(12, int))
    assert (features.means.tolist(), features.scales.tolist()) == ([2.0, 0.0], [1.0, 1.0])
    found = features(np.array([[1.0, 5.0], [np.nan, np.nan]]), np.zeros(2, int))
    assert found.tolist() == [[-1.0, 5.0, 1.0, -1.0, 5.0], [0.0, 0.0, 1.0, 0.0, 0.0]]


def test_a_column_whose_spread_is_too_small_for_its_square():
    x = np.array([1e-200, 2e-200, 3e-200] * 4)
    assert np.isfinite(PairFeatures(x, np.zeros(12, int))(x, np.zeros(12, int))).all()


def test_candidates_and_positions_are_contexts_and_actions():
    rng = np.random.default_rng(0)
    contexts, candidates = rng.normal(size=(30, 2)), rng.normal(size=(30, 4))
    taken = rng.integers(4, size=30)
    rows = ShortlistRows(contexts, candidates)
    actions = rows.picked(taken)
    of_positions, plain = PairFeatures(rows, taken), PairFeatures(contexts, actions)
    assert np.array_equal(of_positions(rows, taken), plain(contexts, actions))


def policies():
    safe = tether.Categorical.from_logits(
        lambda x: np.column_stack([x, -x, 0 * x]), actions=["a", "b", "c"]
    )
    never = tether.Categorical.from_probabilities([0.5, 0.5, 0.0], actions=["a", "b", "c"])
    return safe, never


def test_policies_add_their_standardized_log_probabilities():
    safe, never = policies()
    rng = np.random.default_rng(0)
    x = rng.normal(size=90)
    actions = np.array(["a", "b", "c"])[np.arange(90) % 3]
    features = PairFeatures(x, actions, (safe,), products=False)
    found = features(x, actions)[:, -1]
    expected = safe.log_prob(x, actions)
    assert found == pytest.approx((expected - expected.mean()) / expected.std())
    impossible = PairFeatures(x, actions, (never,))(x[:3], actions[:3])[:, 4]
    assert impossible.tolist() == [0.0, 0.0, -LARGEST_POLICY_SCORE]


@pytest.mark.parametrize("finite", [True, False])
def test_a_table_has_the_features_of_every_pair(finite):
    safe, never = policies()
    x = np.random.default_rng(0).normal(size=30)
    actions = np.array(["a", "b", "c"])[np.arange(30) % 3]
    listed: list = [safe, never]
    if not finite:  # no list of actions: every pair is scored on its own
        listed = [SimpleNamespace(log_prob=safe.log_prob)]
    features = PairFeatures(x, actions, listed)
    pairs = features(np.repeat(x[:4], 3), np.tile(["c", "a", "b"], 4))
    assert features.table(x[:4], np.array(["c", "a", "b"])) == pytest.approx(pairs)
    assert features.without_products()(x, actions).shape[1] == 1 + 3 + len(listed)
