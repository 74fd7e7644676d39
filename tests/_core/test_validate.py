"""Wrong arguments: the exception, the name of the argument, and a hint where one helps."""

import numpy as np
import pytest

import tether
from tether._core import arrays, contexts, validate

ZEROS = np.zeros(4)


def log_of(losses, **columns):
    return tether.Log(losses, ZEROS, ZEROS, **columns)


def number(value, **limits):
    return validate.number("share", value, **{"above": 0, "below": 1, **limits})


def log_probabilities(values):
    return validate.log_probabilities("p", values, ndim=np.ndim(values), zero=np.ndim(values) > 1)


MASKED = np.ma.masked_array([1.0], [True])
WRONG = [
    (lambda: validate.floats("x", ["a"]), "x must hold real numbers"),
    (lambda: validate.floats("x", [[1.0], [1.0, 2.0]]), "x is not a table"),
    (lambda: validate.floats("x", [[1.0]]), "x must have 1 dimension"),
    (lambda: validate.floats("x", []), "x is empty"),
    (lambda: validate.floats("x", MASKED), r"x\[0\] is missing \(None; 1 such"),
    (lambda: contexts.as_contexts(MASKED), "contexts has masked values"),
    (lambda: log_probabilities([[0.0, -np.inf], [0.0, np.nan]]), r"p\[\(1, 1\)\] is nan: expected"),
    (lambda: log_probabilities([-np.inf]), r"p\[0\] is -inf"),
    (lambda: validate.losses("l", [-0.5]), r"l\[0\] is -0.5"),
    (lambda: validate.losses("l", [np.inf]), r"l\[0\] is inf"),
    (lambda: validate.labels("c", [1.5], 1), "c must hold one integer"),
    (lambda: validate.labels("c", [1, 2], 3), "c has 2 rows but .* have 3"),
    (lambda: number(True), "share must be a number, got True"),
    (lambda: number(1), "share must be above 0 and below 1, got 1"),
    (lambda: number(np.nan, including=(0,)), "share must be at least 0 and below 1, got nan"),
    (lambda: validate.choice("family", 3, ("clip", "mix")), "family must be one of 'clip', 'mix'"),
    (lambda: validate.generator("rng", 0), "rng must be a numpy.random.Generator"),
    (lambda: validate.integer("n", 2.5), "n must be an integer of at least 1, got 2.5"),
    (lambda: validate.one_target(0.1, 0.1), "exactly one of alpha"),
    (lambda: tether.calibrate(log_of(ZEROS), promise="2.5%"), "must be a number, got '2.5%'"),
    (lambda: log_of(["no", None, "yes", "no"]), "the word that means harm"),
    (lambda: log_of(ZEROS, reward=["no", "yes"] * 2), "1 for the word that means success"),
    (lambda: log_of(["0", "1", "", "1"]), "a loss is a number"),
    (lambda: log_of([1.0, None, 0.0, 0.0]), "count a missing loss as the largest"),
    (lambda: tether.calibrate(log_of([1, 2, 2, 1]), alpha=0.5), "at most bound = 1; only"),
    (lambda: log_of([-1, 0, 1, 0]), "count a missing loss as the largest"),
    (lambda: arrays.plain_column("actions", ["a", 1]), r"or all strings, got actions\[1\] = 1 "),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_right_arguments():
    own = np.zeros(2)
    array = validate.floats("loss", own)
    assert array.base is own  # not copied, and the user's own array stays writable
    assert not array.flags.writeable
    assert own.flags.writeable
    assert validate.floats("loss", [True, 2]).tolist() == [1.0, 2.0]
    assert (number(np.float32(0.5)), number(1, including=(1,))) == (0.5, 1.0)
    assert (validate.integer("n", 2.0, 1), validate.integer("n", 0, 0)) == (2, 0)
