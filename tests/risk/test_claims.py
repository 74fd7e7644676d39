import numpy as np
import pytest

import tether


def test_claims_from_a_table_with_rows_in_any_order():
    claims = tether.Claims.from_table([0.1, 0.2, 0.3, 0.4], [1, 0, 1, 1], ["b", "a", "b", "a"])
    assert claims.scores.tolist() == [0.2, 0.4, 0.1, 0.3]
    assert claims.supported.tolist() == [False, True, True, True]
    assert claims.offsets.tolist() == [0, 2, 4]


def test_items_may_be_empty_and_can_be_taken():
    claims = tether.Claims([0.1, 0.2, 0.3], [1, 0, 1], [0, 0, 2, 2, 3])
    assert claims.n_items == 4
    part = claims.take([3, 0, 1])
    assert part.scores.tolist() == [0.3, 0.1, 0.2]
    assert part.offsets.tolist() == [0, 1, 1, 3]
    middle = claims.between(1, 3)
    assert (middle.scores.tolist(), middle.offsets.tolist()) == ([0.1, 0.2], [0, 2, 2])


def test_claims_are_read_only():
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
        (([0.1, 0.2], [0], [0, 2]), "^supported has 1 rows"),
        (([0.1, 0.2], [[True, False]], [0, 2]), r"supported must have 1 dimension\(s\)"),
        (
            ([0.1, 0.2], [0, 1], [0, 2, 1]),
            r"offsets must not decrease, got offsets\[1\] = 2 before",
        ),
        (([0.1, 0.2], [0, 1], [0, 1]), "offsets must end at the number of claims, 2, got 1"),
        (([0.1, 0.2], [0, 1], [1, 2]), r"offsets must start at 0, got offsets\[0\] = 1"),
        (([0.1, 0.2], [0, 1], [2]), "offsets must be one-dimensional integers"),
        (([0.1, 0.2], [0, 1], [0.0, 2.0]), "offsets must be one-dimensional integers"),
    ],
)
def test_bad_claims(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tether.Claims(*arguments)


@pytest.mark.parametrize("values", [[True, False], [1, 0], [0.0, 1.0]])
def test_masked_values_are_refused(values):
    with pytest.raises(ValueError, match=r"^supported has 1 masked value"):
        tether.Claims([0.1, 0.2], np.ma.array(values, mask=[0, 1]), [0, 1, 2])
    with pytest.raises(ValueError, match=r"^offsets has 1 masked value"):
        tether.Claims([0.1], [1], np.ma.array([0, 1], mask=[0, 1]))


def test_items_are_taken_by_mask_or_index():
    claims = tether.Claims(np.arange(60) / 60, np.arange(60) % 3 > 0, range(0, 61, 3))
    mask = np.arange(20) % 2 == 0
    assert (claims.take(mask).scores == claims.take(np.flatnonzero(mask)).scores).all()
    assert claims.take([]).n_items == 0
    for items, message in [
        (mask[:5], "^items has 5 rows"),
        ([0, 20], r"items\[1\] is 20: expected an index from 0 to 19"),
        ([-1], r"items\[0\] is -1"),
        ([0.5], "items must be one-dimensional: item indices"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            claims.take(items)


@pytest.mark.parametrize("words", [["no", "yes"], np.array(["no", "yes"], dtype=object)])
def test_words_as_labels_are_compared_with_the_word_for_a_true_claim(words):
    with pytest.raises(TypeError, match="that means a true claim, as in column == 'yes'") as told:
        tether.Claims.from_table([0.1, 0.9], words, ["a", "a"])
    assert "== 'no'" not in str(told.value)
