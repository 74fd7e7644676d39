"""Contexts from JSON, in the format of a run's rows."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.rounds.json_rows import actions_to_json, contexts_from_json
from tether.rounds.store.codecs import Codec


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.5], np.array([1.0, 2.5])),
        ([[1, 2], [3, 4]], np.array([[1.0, 2.0], [3.0, 4.0]])),
        (["a", "bc"], np.array(["a", "bc"])),
        ([True, False], np.array([True, False])),
        ([None, None], 2),
    ],
)
def test_the_first_contexts_of_a_run(values, expected):
    made = contexts_from_json(values)
    np.testing.assert_array_equal(made, expected)
    assert getattr(made, "dtype", int) == getattr(expected, "dtype", int)


def test_objects_and_lists_of_other_things_stay_as_they_are():
    values = [{"age": 3}, {"age": 4}]
    assert contexts_from_json(values).tolist() == values
    values = [["a", 1], ["b", 2]]
    made = contexts_from_json(values)
    assert (made.shape, made.tolist()) == ((2,), values)


@pytest.mark.parametrize(
    "rows",
    [
        np.array([1, 2]),
        np.array([1.5, 2.5], dtype=np.float32),
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.array(["x", "y"]),
        np.array([["x", "y"], ["z", "w"]]),
        np.array([[1, 2], None], dtype=object)[:1],
        pd.DataFrame({"age": [1, 2], "name": ["a", "b"], "weight": [1.5, 2.5]}),
        3,
    ],
)
def test_later_contexts_have_the_format_of_the_first(rows):
    codec = Codec.of("contexts", rows)
    if isinstance(rows, int):
        values = [None] * rows
    elif isinstance(rows, pd.DataFrame):
        values = rows.to_dict("records")
    else:
        values = rows.tolist()
    made = contexts_from_json(json.loads(json.dumps(values)), codec)
    assert codec.encode("contexts", made) == codec.encode("contexts", rows)


@pytest.mark.parametrize(
    ("values", "codec"),
    [
        ([], None),
        ([1, "a"], None),
        ([[1, 2], [3]], None),
        ([1e999], None),
        ([2**60], None),
        (["a\0"], None),
        ([1, None], None),
        ([1, True], None),
        ([{"a": 1}, 2], None),
        ([1.5], Codec.of("contexts", np.array([1]))),
        ([2**63], Codec.of("contexts", np.array([1]))),
        ([1e300], Codec.of("contexts", np.array([1.0], dtype=np.float32))),
        ([1], Codec.of("contexts", np.array(["a"]))),
        ([1], Codec.of("contexts", 5)),
        ([["a"]], Codec.of("contexts", np.array([["a", "b"]]))),
        ([{"b": 1}], Codec.of("contexts", pd.DataFrame({"a": [1]}))),
    ],
)
def test_other_values_are_refused(values, codec):
    with pytest.raises(ValueError, match="contexts"):
        contexts_from_json(values, codec)


def test_long_texts_are_not_padded(monkeypatch):
    monkeypatch.setattr("tether.rounds.store.codecs.MAX_PADDED_BYTES", 100)
    made = contexts_from_json(["a" * 100, "b"])
    assert made.dtype == object
    assert Codec.of("contexts", made) == Codec.of("contexts", np.array(["a"]))


@settings(max_examples=30)
@given(st.lists(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists)))
def test_anything_is_converted_or_refused(values):
    try:
        made = contexts_from_json(values)
    except ValueError:
        return
    codec = Codec.of("contexts", made)
    assert len(codec.encode("contexts", made)) == len(values)


def test_actions_are_json():
    assert json.dumps(actions_to_json(np.array([1, 2]))) == "[1, 2]"
    assert actions_to_json(np.array([[1.0], [2.0]])) == [[1.0], [2.0]]
