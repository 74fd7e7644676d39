"""The rows of a part are refused as those of a log in memory are, whichever way they are read."""

from __future__ import annotations

import numpy as np
import pytest

import tether
from tether.control.parts.rows import LogColumns, LogPart

COLUMNS = LogColumns((("loss", "loss"),), True, "log_safe", "log_optimized")
GOOD = {"loss": [0.0, 1.0, 0.5], "log_safe": [-1.0, 2.0, 0.0], "log_optimized": [-2.0, 1.0, -3.0]}


def read(columns, **changes):
    frame = {name: np.asarray(values) for name, values in columns.items()}
    settings = LogColumns(**{**vars(COLUMNS), **changes})
    return settings.read(frame, tables=False, reward=False, check=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0])
@pytest.mark.parametrize("name", GOOD)
def test_a_value_that_a_log_refuses_is_refused_with_its_words(name, value):
    columns = {each: np.array(values) for each, values in GOOD.items()}
    columns[name][1] = value
    if (name == "log_optimized" and value < 0) or (name == "log_safe" and value == -1):
        tether.Log(**columns)
        assert read(columns).score_ranges[1][0] == columns["log_optimized"].min()
        return
    with pytest.raises(ValueError) as expected:
        tether.Log(**columns)
    with pytest.raises(ValueError) as found:
        read(columns)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(
    "columns",
    [
        {**GOOD, "loss": ["0.0", "1.0", "0.5"]},
        {**GOOD, "loss": [0.0, 1.0]},
        {**GOOD, "log_safe": [[-1.0], [-1.0], [-1.0]]},
        {**GOOD, "log_optimized": ["-1", "-2", "-3"]},
    ],
)
def test_columns_of_another_kind_or_length_are_refused(columns):
    with pytest.raises((TypeError, ValueError)) as expected:
        tether.Log(**columns)
    with pytest.raises(type(expected.value)) as found:
        read(columns)
    assert str(found.value) == str(expected.value)


def test_what_is_stated_beside_the_columns_is_checked_too():
    with pytest.raises(ValueError, match="without log_mix the safe policy produced every row"):
        read(GOOD, safe_share=0.5)
    with pytest.raises(ValueError, match=r"above max_ratio = 1\.5"):
        read({**GOOD, "log_optimized": [-2.0, 4.0, -3.0]}, max_ratio=1.5)


def test_integers_and_floats_make_the_same_part():
    whole = {**GOOD, "loss": np.array([0, 1, 1])}
    floats = {**GOOD, "loss": np.array([0.0, 1.0, 1.0])}
    parts = [read(whole), read(floats)]
    assert all(type(part) is LogPart for part in parts)
    assert np.array_equal(parts[0].loss["loss"], parts[1].loss["loss"])
    assert parts[0].loss_ranges == parts[1].loss_ranges == {"loss": (0.0, 1.0)}
