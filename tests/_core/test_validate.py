"""Wrong arguments: the exception, the name of the argument, and a hint where one helps."""

import numpy as np
import pytest

import tether
from tether._core import validate

ZEROS = np.zeros(4)
RNG = np.random.default_rng(0)


def log_of(losses, **columns):
    return tether.Log(losses, ZEROS, ZEROS, **columns)


def number(value, **limits):
    return validate.number("share", value, **{"above": 0, "below": 1, **limits})


WRONG = {
    "text": (lambda: validate.floats("x", ["a"]), TypeError, "x must hold real numbers"),
    "ragged": (lambda: validate.floats("x", [[1.0], [1.0, 2.0]]), ValueError, "x is not a table"),
    "a table": (lambda: validate.floats("x", [[1.0]]), ValueError, r"x must have 1 dimension"),
    "empty": (lambda: validate.floats("x", []), ValueError, "x is empty"),
    "masked": (
        lambda: validate.floats("x", np.ma.masked_array([1.0], [True])),
        ValueError,
        r"x has 1 masked value",
    ),
    "nan": (
        lambda: validate.log_probabilities("p", [[0.0, -np.inf], [0.0, np.nan]], ndim=2, zero=True),
        ValueError,
        r"p\[\(1, 1\)\] is nan: expected a log-probability below",
    ),
    "zero": (lambda: validate.log_probabilities("p", [-np.inf]), ValueError, r"p\[0\] is -inf"),
    "negative": (lambda: validate.losses("l", [-0.5]), ValueError, r"l\[0\] is -0.5"),
    "infinite": (lambda: validate.losses("l", [np.inf]), ValueError, r"l\[0\] is inf"),
    "float labels": (lambda: validate.labels("c", [1.5], 1), TypeError, "c must hold one integer"),
    "rows": (lambda: validate.labels("c", [1, 2], 3), ValueError, "c has 2 rows but .* have 3"),
    "a boolean": (lambda: number(True), TypeError, "share must be a number, got True"),
    "none": (lambda: number(None), TypeError, "share must be a number, got None"),
    "at the limit": (lambda: number(1), ValueError, "share must be above 0 and below 1, got 1"),
    "nan share": (
        lambda: number(np.nan, including=(0,)),
        ValueError,
        "share must be at least 0 and below 1, got nan",
    ),
    "no choice": (
        lambda: validate.choice("family", 3, ("clip", "mix")),
        ValueError,
        "family must be one of 'clip', 'mix', got 3",
    ),
    "a seed": (lambda: validate.generator("rng", 0), TypeError, "rng must be a numpy.random.Gene"),
    "a fraction": (
        lambda: validate.integer("n", 2.5),
        ValueError,
        "n must be an integer of at least 1, got 2.5",
    ),
    "two targets": (lambda: validate.one_target(0.1, 0.1), ValueError, "exactly one of alpha"),
    "percent": (
        lambda: tether.calibrate(log_of(ZEROS), promise="2.5%"),
        TypeError,
        "promise must be a number, got '2.5%': write 2.5% as 0.025",
    ),
    "words": (
        lambda: log_of(["no", None, "yes", "no"]),
        TypeError,
        "the word that means harm",
    ),
    "reward words": (
        lambda: log_of(ZEROS, reward=["no", "yes"] * 2),
        TypeError,
        "1 for the word that means success",
    ),
    "decimal commas": (lambda: log_of(["0,5"] * 4), TypeError, "write decimals with a point, 0.5"),
    "numbers as text": (lambda: log_of(["0", "1", "", "1"]), TypeError, "convert it to numbers"),
    "gaps": (lambda: log_of([1.0, None, 0.0, 0.0]), ValueError, "count a missing loss as the larg"),
    "codes": (
        lambda: tether.calibrate(log_of([1, 2, 2, 1]), alpha=0.5),
        ValueError,
        "all are 1 or 2: if these are codes of two outcomes, write 1 for the harm",
    ),
    "minus one": (lambda: log_of([-1, 0, 1, 0]), ValueError, "-1 is the code of a missing outcome"),
    "mixed actions": (
        lambda: tether.Categorical.from_probabilities([0.5, 0.5], actions=["a", 1]),
        TypeError,
        r"all numbers or all strings, got actions\[1\] = 1 ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name):
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()


def test_right_arguments():
    own = np.zeros(2)
    array = validate.floats("loss", own)
    assert array.base is own  # not copied, and the user's own array stays writable
    assert not array.flags.writeable
    assert own.flags.writeable
    assert validate.floats("loss", [True, 2]).tolist() == [1.0, 2.0]
    assert validate.log_probabilities("p", [-np.inf], zero=True)[0] == -np.inf
    assert validate.labels("c", np.array(["a", "bb"], dtype=object), 2).dtype.kind == "U"
    assert number(np.float32(0.5)) == 0.5
    assert number(1, including=(1,)) == 1.0
    assert validate.integer("n", 2.0, 1) == 2
    assert validate.integer("n", 0, 0) == 0
    assert validate.generator("rng", RNG) is RNG
