"""Contexts with candidates behave as contexts do."""

import numpy as np
import pandas as pd
import pytest

from tether._core.contexts import labels, take
from tether.policies import ShortlistRows


def test_rows_can_be_taken_apart_and_recognized_by_content():
    frame = pd.DataFrame({"age": [1, 2, 1]})
    candidates = np.array([["a", "b"], ["a", "b"], ["a", "b"]])
    rows = ShortlistRows(frame, candidates)
    label = labels(rows)
    assert label[0] == label[2] != label[1]
    np.testing.assert_array_equal(labels(take(rows, np.array([1, 0]))), label[[1, 0]])
    without = ShortlistRows(3, np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
    label = labels(without)
    assert label[0] == label[2] != label[1]
    assert len(rows[1:3]) == 2
    assert rows[0:3] is rows
    assert "3 rows of 2 candidates" in repr(rows)
    with pytest.raises(ValueError, match=r"candidates must have shape \(rows, N\)"):
        ShortlistRows(3, np.zeros(3))
    with pytest.raises(ValueError, match=r"with 3 row\(s\), got shape \(2, 2\)"):
        ShortlistRows(3, np.zeros((2, 2)))
