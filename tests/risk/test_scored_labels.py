import numpy as np
import pytest

import tether


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.nan], [1]), r"scores\[0\] is nan"),
        (([0.5], [0.5]), r"labels\[0\] is 0.5"),
        (([0.5], [1, 0]), "^labels has 2 rows"),
    ],
)
def test_bad_labels(arguments, message):
    with pytest.raises(ValueError, match=message):
        tether.ScoredLabels(*arguments)


def test_the_size_and_a_selection_of_items():
    data = tether.ScoredLabels([0.1, 0.2, 0.3], [True, False, True])
    assert data.n_items == 3
    part = data.take([2, 0])
    assert part.scores.tolist() == [0.3, 0.1]
    assert part.labels.tolist() == [True, True]
    assert repr(part) == "ScoredLabels(n_items=2, n_positive=2)"


@pytest.mark.parametrize("values", [[True, False], [1, 0], [0.0, 1.0]])
def test_masked_labels_are_refused(values):
    with pytest.raises(ValueError, match=r"^labels has 1 masked value"):
        tether.ScoredLabels([0.1, 0.2], np.ma.array(values, mask=[0, 1]))
