import numpy as np
import pytest

import tether
from tether.risk.item_weights import ItemWeights, item_weights

METHODS = [tether.gcrc, tether.crc, tether.monotonized_crc]
LOSSES = np.random.default_rng(8).random((40, 4)) * np.linspace(0.6, 0.05, 4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e308, 1.0, 5e-324])
def test_only_proportions_matter_however_large_or_small(method, scale):
    plain = method(LOSSES, alpha=0.3)
    found = method(LOSSES, alpha=0.3, weights=np.full(40, scale))
    assert (found.threshold, found.exists) == (plain.threshold, plain.exists)
    assert found.risk == pytest.approx(plain.risk)
    assert found.effective_sample_size == 40
    bad = method(np.ones((40, 4)), alpha=0.3, weights=np.full(40, scale))
    assert not bad.exists
    assert bad.risk == 1


def test_the_effective_size_does_not_vanish_beside_a_large_test_weight():
    found = item_weights([1e-200, 1e-200], None, 1.0, None)
    assert found.effective_sample_size(2) == 2


def test_a_part_has_its_own_largest_weight():
    """A group of light items is not held back by a heavy item of another."""
    both = item_weights([1.0, 2.0, 800.0], None, None, None).take([0, 1])
    assert (both.values.tolist(), both.test) == ([0.5, 1.0], 1.0)
    given = item_weights([1.0, 2.0, 800.0], None, 4.0, None).take([0, 1])
    assert given.values.tolist() == pytest.approx([0.25, 0.5])
    assert given.test == 1
    smaller = item_weights([1.0, 2.0, 8.0], None, 4.0, None)
    assert smaller.values.tolist() == pytest.approx([0.125, 0.25, 1.0])
    assert smaller.test == pytest.approx(0.5)
    logs = item_weights(None, [0.0, 0.0, 5000.0], None, None).take([0, 1])
    assert logs.values.tolist() == [1.0, 1.0]
    assert ItemWeights().take([0]).values is None


def test_groups_and_classes_are_weighted_on_their_own():
    weights = np.where(np.arange(40) % 2, 1.0, 1000.0)
    found = tether.gcrc(LOSSES, alpha=0.3, weights=weights, groups=np.arange(40) % 2)
    light = tether.gcrc(LOSSES[1::2], alpha=0.3)
    assert found.for_group(1).risk == pytest.approx(light.risk)
    data = tether.ScoredLabels(np.arange(40) / 40, np.arange(40) % 2 == 0)
    found = tether.crc(data, alpha=0.3, loss="false_positive", weights=weights)
    assert found.risk == pytest.approx(tether.crc(data, alpha=0.3, loss="false_positive").risk)


def test_a_group_without_weight_is_an_error():
    with pytest.raises(ValueError, match="weights are all 0"):
        tether.gcrc(LOSSES, alpha=0.3, weights=np.arange(40) % 2, groups=np.arange(40) % 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.1, "weights": [1, 2]}, "^weights has 2 rows"),
        ({"alpha": 0.1, "weights": [1, 2, 3, 4, 5]}, "^weights has 5 rows"),
        (
            {"alpha": 0.1, "weights": [1, 0, 3, -1]},
            r"weights\[3\] is -1.0: expected a finite weight of at least 0",
        ),
        ({"alpha": 0.1, "weights": [1, 2, np.nan, 1]}, r"weights\[2\] is nan"),
        ({"alpha": 0.1, "weights": [1] * 4, "log_test_weight": 0.0}, "needs log_weights"),
        ({"alpha": 0.1, "log_weights": [0] * 4, "test_weight": 1.0}, "needs weights"),
        ({"alpha": 0.1, "weights": [5e-324] * 4, "test_weight": 1e308}, "weights underflow"),
        ({"alpha": 0.1, "weights": [0, 0, 0, 0]}, "weights are all 0"),
        ({"alpha": 0.1, "log_weights": [-np.inf] * 4}, "log_weights are all -inf"),
        ({"alpha": 0.1, "test_weight": 2.0}, "test_weight = 2.0 needs weights"),
        ({"alpha": 0.1, "weights": [1] * 4, "log_weights": [0] * 4}, "not both"),
    ],
)
def test_bad_weights(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.gcrc(np.zeros((4, 3)), **arguments)
