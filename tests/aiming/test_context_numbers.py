"""Contexts as numbers: words have indicators, rare and new ones none."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tether.aiming.context_numbers import MAX_INDICATED_WORDS, context_numbers, find_words

FRAME = pd.DataFrame(
    {"age": [20, 30, 40, 50] * 3, "plan": ["basic", "plus", "basic", None] * 3, "old": [True] * 12}
)


@pytest.mark.parametrize(
    "frame", [FRAME, FRAME.astype({"plan": "category"}), pl.from_pandas(FRAME)]
)
def test_words_of_a_frame_have_indicators_and_numbers_stay(frame):
    words = find_words(frame)
    assert [None if each is None else each.tolist() for each in words] == [
        None,
        ["basic", "plus"],
        None,
    ]
    found = context_numbers(frame[:4], 4, words)
    assert found.tolist() == [[20, 1, 0, 1], [30, 0, 1, 1], [40, 1, 0, 1], [50, 0, 0, 1]]


def test_new_and_rare_words_have_no_indicator():
    words = find_words(np.array(["a"] * 5 + ["b"] * 2))
    assert words[0].tolist() == ["a"]
    assert context_numbers(np.array(["a", "b", "c"]), 3, words).tolist() == [[1], [0], [0]]
    many = np.repeat([f"{k:02}" for k in range(50)], np.arange(3, 53))
    assert find_words(many)[0].tolist() == [f"{k:02}" for k in range(50)][-MAX_INDICATED_WORDS:]


def test_numbers_are_as_before():
    table = np.arange(12.0).reshape(2, 3, 2)
    assert find_words(table) == find_words(3) == ()
    assert context_numbers(table, 2, ()).shape == (2, 6)
    assert context_numbers(3, 3, ()).shape == (3, 0)
    gaps = pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64"), "w": ["a"] * 3})
    found = context_numbers(gaps, 3, find_words(gaps))
    np.testing.assert_array_equal(found, [[1, 1], [np.nan, 1], [3, 1]])


@pytest.mark.parametrize(
    ("contexts", "message"),
    [
        (pd.DataFrame({"when": [pd.Timestamp("2026-01-01")] * 3}), "the column 'when' must hold"),
        (pd.DataFrame({"mixed": ["a", 1, "b"]}), "the column 'mixed' has words and numbers"),
        (np.array([["a", 1], [(), 2]], dtype=object), "column 0 has words and numbers"),
    ],
)
def test_other_columns_are_named_with_a_way_out(contexts, message):
    with pytest.raises(TypeError, match=rf"{message}.*contexts\.assign\(action=actions\)"):
        find_words(contexts)


def test_other_contexts_than_those_of_the_fit_are_refused():
    words = find_words(FRAME)
    with pytest.raises(ValueError, match="contexts has 1 columns, and had 3"):
        context_numbers(FRAME[["age"]], 12, words)
    with pytest.raises(TypeError, match="contexts must hold numbers or words, got 'a'"):
        context_numbers(np.array(["a", "b"]), 2, ())
