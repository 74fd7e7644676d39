import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from tether.policies.ratio_features import feature_matrix, visible_columns

ACTIONS = np.array([[1, 2], [3, 4], [5, 6]])


def test_by_default_contexts_and_actions_lie_side_by_side():
    assert feature_matrix(None, 3, ACTIONS).tolist() == ACTIONS.tolist()
    expected = [[7, 1, 2], [8, 3, 4], [9, 5, 6]]
    assert feature_matrix(None, np.array([7.0, 8.0, 9.0]), ACTIONS).tolist() == expected
    assert feature_matrix(None, pd.DataFrame({"x": [7, 8, 9]}), ACTIONS).tolist() == expected


def test_text_needs_features():
    words = np.array(["a", "bb", "ccc"])
    with pytest.raises(TypeError, match=r"actions must hold numbers, got dtype <U3; give features"):
        feature_matrix(None, 3, words)
    lengths = feature_matrix(lambda n, actions: [len(word) for word in actions], 3, words)
    assert lengths.tolist() == [[1], [2], [3]]


def test_features_must_be_numbers_with_one_row_per_action():
    with pytest.raises(TypeError, match="features must hold numbers"):
        feature_matrix(lambda n, actions: ["x", "y", "z"], 3, ACTIONS)
    with pytest.raises(ValueError, match="features returned 2 rows for 3 actions"):
        feature_matrix(lambda n, actions: actions[:2], 3, ACTIONS)


def test_what_the_features_leave_out_stays_visible_if_it_is_a_number():
    def first(n, actions):
        return actions[:, 0]

    matrix = feature_matrix(first, 3, ACTIONS)
    assert visible_columns(first, matrix, 3, ACTIONS).tolist() == [[1, 1, 2], [3, 3, 4], [5, 5, 6]]
    assert visible_columns(None, matrix, 3, ACTIONS) is matrix
    assert visible_columns(first, matrix, 3, np.array(["a", "b", "c"])) is matrix
    sparse = feature_matrix(lambda n, actions: csr_array(actions), 3, ACTIONS)
    assert visible_columns(first, sparse, 3, ACTIONS) is sparse
