"""Validation of input: clean values, or an error that names the argument and the value."""

import numpy as np
import pytest

from tether._core import validate


def test_numbers_become_a_read_only_array_of_floats():
    array = validate.floats("loss", [True, 2])
    assert (array.dtype, array.tolist()) == (np.float64, [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 3
    own = np.zeros(2)
    assert validate.floats("loss", own).base is own  # not copied
    own[0] = 1.0  # and the user's own array stays writable


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (["a"], TypeError, r"x must hold real numbers, got an array of dtype <U1 \(first value"),
        ([[1.0], [1.0, 2.0]], ValueError, "x is not a table of numbers"),
        ([[1.0]], ValueError, r"x must have 1 dimension\(s\), got shape \(1, 1\)"),
        ([], ValueError, r"x is empty \(shape \(0,\)\); at least one row is needed"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), ValueError, r"x has 1 masked value\(s\)"),
    ],
)
def test_arrays_that_are_not_numbers(values, error, message):
    with pytest.raises(error, match=message):
        validate.floats("x", values)


def test_log_probabilities_and_losses():
    assert validate.log_probabilities("p", [-1.0, 3.0]).tolist() == [-1.0, 3.0]
    assert validate.log_probabilities("p", [-np.inf], zero=True)[0] == -np.inf
    table = [[0.0, -np.inf], [0.0, np.nan]]
    with pytest.raises(ValueError, match=r"p\[\(1, 1\)\] is nan: expected a log-probability below"):
        validate.log_probabilities("p", table, ndim=2, zero=True)
    with pytest.raises(ValueError, match=r"p\[1\] is -inf: expected a finite .* in 3\)"):
        validate.log_probabilities("p", [0.0, -np.inf, -np.inf])
    for loss in (-0.5, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"l\[0\] is .*: expected a finite loss of at least 0"):
            validate.losses("l", [loss])


def test_labels():
    assert validate.labels("c", np.array(["a", "bb"], dtype=object), 2).dtype.kind == "U"
    assert validate.labels("c", [3, 4], 2).tolist() == [3, 4]
    with pytest.raises(
        TypeError, match="c must hold one integer or string per row, got an array of dt"
    ):
        validate.labels("c", [1.5], 1)
    with pytest.raises(ValueError, match="c has 2 rows but the other columns have 3"):
        validate.labels("c", [1, 2], 3)
    with pytest.raises(ValueError, match=r"c must have 1 dimension, got shape \(1, 1\)"):
        validate.labels("c", [[1]], 1)


def test_single_numbers():
    assert validate.number("alpha", np.float32(0.5), above=0, below=1) == 0.5
    assert np.isnan(validate.real("score", float("nan")))
    for value in (True, "0.5", None):
        with pytest.raises(TypeError, match="alpha must be a number, got"):
            validate.number("alpha", value, above=0, below=1)
    for value in (0, 1, float("nan")):
        with pytest.raises(ValueError, match="alpha must be above 0 and below 1, got"):
            validate.number("alpha", value, above=0, below=1)


def test_choices_and_generators():
    assert validate.choice("family", "clip", ("clip", "mix")) == "clip"
    with pytest.raises(ValueError, match="family must be one of 'clip', 'mix', got 3"):
        validate.choice("family", 3, ("clip", "mix"))
    rng = np.random.default_rng(0)
    assert validate.generator("rng", rng) is rng
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator, .*got 0"):
        validate.generator("rng", 0)


@pytest.mark.parametrize("value", [0, 2.0, True, "3", None])
def test_an_integer_below_its_minimum_or_of_another_type_is_refused(value):
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, got"):
        validate.integer_at_least("draws", value)
    assert validate.integer_at_least("draws", np.int64(4)) == 4
    assert validate.integer_at_least("seed", 0, 0) == 0


@pytest.mark.parametrize("value", [True, False, np.True_])
def test_a_boolean_is_not_a_number(value):
    with pytest.raises(TypeError, match=f"share must be a number, got {value!r}"):
        validate.number("share", value, above=0, below=1, including=(0, 1))


def test_a_limit_may_be_included():
    assert validate.number("share", 1, above=0, below=1, including=(1,)) == 1.0
    with pytest.raises(ValueError, match="share must be above 0 and at most 1, got 0"):
        validate.number("share", 0, above=0, below=1, including=(1,))
    with pytest.raises(ValueError, match="share must be at least 0 and below 1, got nan"):
        validate.number("share", float("nan"), above=0, below=1, including=(0,))
