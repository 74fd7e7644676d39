import numpy as np
import pytest

import tether


def test_a_table_of_rows_in_any_order():
    claims = tether.Claims.from_table([0.1, 0.2, 0.3, 0.4], [1, 0, 1, 1], ["b", "a", "b", "a"])
    assert claims.scores.tolist() == [0.2, 0.4, 0.1, 0.3]
    assert claims.supported.tolist() == [False, True, True, True]
    assert claims.offsets.tolist() == [0, 2, 4]


def test_items_may_be_empty_and_taken_again():
    claims = tether.Claims([0.1, 0.2, 0.3], [1, 0, 1], [0, 0, 2, 2, 3])
    assert claims.items == 4
    part = claims.take([3, 0, 1])
    assert part.scores.tolist() == [0.3, 0.1, 0.2]
    assert part.offsets.tolist() == [0, 1, 1, 3]
    middle = claims.between(1, 3)
    assert (middle.scores.tolist(), middle.offsets.tolist()) == ([0.1, 0.2], [0, 2, 2])


def test_claims_cannot_change_under_their_owner():
    claims = tether.Claims([0.1], [1], [0, 1])
    with pytest.raises(ValueError, match="read-only"):
        claims.scores[0] = 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, np.nan], [0, 1], [0, 2]), r"scores\[1\] is nan: expected a finite score"),
        (([0.1, np.inf], [0, 1], [0, 2]), r"scores\[1\] is inf"),
        ((["a"], [0], [0, 1]), "scores must hold real numbers"),
        (([], [], [0, 0]), "scores is empty"),
        (([0.1, 0.2], [0, 2], [0, 2]), r"supported\[1\] is 2.0: expected a label of 0 or 1"),
        (([0.1, 0.2], [0, np.nan], [0, 2]), r"supported\[1\] is nan"),
        (([0.1, 0.2], [0], [0, 2]), "supported has 1 rows but scores has 2"),
        (([0.1, 0.2], [[True, False]], [0, 2]), r"supported must have 1 dimension\(s\)"),
        (([0.1, 0.2], [0, 1], [0, 2, 1]), r"offsets must not fall, got offsets\[1\] = 2 before"),
        (([0.1, 0.2], [0, 1], [0, 1]), "offsets must end at the 2 claims there are, got 1"),
        (([0.1, 0.2], [0, 1], [1, 2]), r"offsets must start at 0, got offsets\[0\] = 1"),
        (([0.1, 0.2], [0, 1], [2]), "offsets must be one-dimensional integers"),
        (([0.1, 0.2], [0, 1], [0.0, 2.0]), "offsets must be one-dimensional integers"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.Claims(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.nan], [1]), r"scores\[0\] is nan"),
        (([0.5], [0.5]), r"labels\[0\] is 0.5"),
        (([0.5], [1, 0]), "labels has 2 rows but scores has 1"),
    ],
)
def test_bad_labels(arguments, message):
    with pytest.raises(ValueError, match=message):
        tether.ScoredLabels(*arguments)


def test_an_unknown_loss_is_named():
    claims = tether.Claims([0.1], [1], [0, 1])
    with pytest.raises(ValueError, match="loss must be one of 'fdr', 'any_false', 'miss', got 'f'"):
        tether.gcrc(claims, alpha=0.1, loss="f")
    with pytest.raises(ValueError, match="loss must be one of 'false_discovery'"):
        tether.gcrc(tether.ScoredLabels([0.1], [1]), alpha=0.1, loss="fdr")


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
def test_a_callable_that_leaves_its_bounds_is_named(value):
    def strange(supported, kept):
        return value if kept.sum() == 1 else 0.0

    claims = tether.Claims([0.1, 0.3, 0.2], [1, 1, 0], [0, 1, 3])
    with pytest.raises(ValueError, match=r"loss 'strange' is .* for item 0: expected a loss in"):
        tether.gcrc(claims, alpha=0.1, loss=strange)


def test_a_bound_that_a_loss_exceeds():
    claims = tether.Claims([0.1], [0], [0, 1])
    with pytest.raises(ValueError, match="loss 'fdr' is 1 for item 0: expected a loss in"):
        tether.gcrc(claims, alpha=0.1, bound=0.5)
