"""Copies of one answer are no independent draws: they are refused, or told."""

from itertools import pairwise

import numpy as np
import pytest

import tether
from tether.policies.copied_candidates import copied_warning
from tether.policies.shortlist_rows import ShortlistRows

ROWS = 300


def copies(contexts, rng):
    """What a server does that ignores n: one answer, repeated; `contexts` has each one in turn."""
    starts = np.flatnonzero(np.r_[True, [a != b for a, b in pairwise(contexts)]])
    drawn = rng.normal(size=len(starts))
    return np.repeat(drawn, np.diff(np.r_[starts, len(contexts)]))


def logged(draw, answers, rng):
    contexts = np.arange(len(answers)).astype(float)
    shortlist = tether.Shortlist(draw, lambda _, drawn: drawn, size=8)
    return shortlist.make_log(contexts, answers, np.zeros(len(answers)), rng)


def test_copies_beside_logged_answers_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"in 100% of the rows the 7 fresh .* server ignores n"):
        logged(copies, rng.normal(size=ROWS), rng)


@pytest.mark.parametrize("kind", [str, object, "vectors"])
def test_copies_of_texts_and_vectors_are_refused(kind):
    rng = np.random.default_rng(1)
    index = rng.integers(4, size=ROWS)
    candidates = np.repeat(rng.integers(10**9, size=(ROWS, 1)), 4, axis=1)
    candidates[np.arange(ROWS), index] = rng.integers(10**9, size=ROWS)
    if kind == "vectors":
        candidates = np.stack([candidates, candidates], axis=2)
    else:
        candidates = candidates.astype(str).astype(kind)
    with pytest.raises(ValueError, match="the 3 fresh candidates are the same"):
        copied_warning(ShortlistRows(ROWS, candidates), index)


def test_a_cache_that_knows_the_logged_answers_is_told():
    rng = np.random.default_rng(2)
    cached = rng.normal(size=ROWS)
    with pytest.warns(tether.AssumptionWarning, match=r"all 8 .* same in 100% .* one seed for all"):
        log = logged(lambda contexts, _: cached[np.asarray(contexts, dtype=int)], cached, rng)
    assert "all 8 candidates are the same" in tether.calibrate(log, alpha=0.1).warnings[0]


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("common", [0.5, 0.9, 0.97])
def test_few_actions_that_are_drawn_independently_are_not_refused(common, size):
    """Candidates are often the same here, and one that differs is the logged one by chance."""
    rng = np.random.default_rng(int(1000 * common) + size)

    def few(contexts, rng):
        return (rng.random(len(contexts)) > common).astype(float)

    for _ in range(20):
        candidates = few(np.empty(ROWS * size), rng).reshape(ROWS, size)
        message = copied_warning(ShortlistRows(ROWS, candidates), rng.integers(size, size=ROWS))
        assert message is None or "hardly anything to pick from" in message
        assert message is None or common**size > 0.7


def test_objects_that_are_no_text_are_not_compared():
    candidates = np.empty((ROWS, 4), dtype=object)
    candidates[:] = [[{"a": 1}] * 4] * ROWS
    assert copied_warning(ShortlistRows(ROWS, candidates), np.zeros(ROWS, dtype=int)) is None
