"""A shortlist's log that has its rows twice is told, although fresh candidates differ."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

import tether
from tether.policies.repeated_decisions import repeated_decisions_warning

SHORTLIST = tether.Shortlist(tether.Gaussian(0.0), lambda _, drawn: drawn, size=8)


def table(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=rows)
    return rng.normal(size=rows), actions, (actions > 1.5).astype(float)


def test_a_log_that_is_joined_to_itself_is_told_and_kept():
    doubled = [np.tile(column, 2) for column in table()]
    with pytest.warns(tether.AssumptionWarning, match="600 of 600 rows are in the log more than"):
        log = SHORTLIST.make_log(*doubled, np.random.default_rng(1))
    found = tether.calibrate(log, alpha=0.15)
    assert any("rows 300 to 599 equal rows 0 to 299" in each for each in found.warnings)


def test_rows_that_differ_are_not_told():
    for contexts in (None, table()[0]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SHORTLIST.make_log(contexts, *table()[1:], np.random.default_rng(1))


@pytest.mark.parametrize("kind", [str, object])
def test_texts_are_compared_and_few_answers_to_few_questions_are_chance(kind):
    rng = np.random.default_rng(2)
    asked = np.array([f"question {k}" for k in range(400)]).astype(kind)
    answers = np.array([f"answer {k}" for k in rng.integers(10**9, size=400)]).astype(kind)
    harm = {"harm": np.zeros(800)}
    message = repeated_decisions_warning(np.tile(asked, 2), np.tile(answers, 2), harm)
    assert "with the same contexts, actions and losses (rows 400 to 799 equal" in message
    few = rng.integers(20, size=800), rng.integers(3, size=800)
    assert (
        repeated_decisions_warning(*(each.astype(str).astype(kind) for each in few), harm) is None
    )


def test_questions_that_are_asked_again_with_other_answers_are_no_copies():
    rng = np.random.default_rng(3)
    asked, answers = np.tile(np.arange(400), 2), rng.normal(size=800)
    assert repeated_decisions_warning(asked, answers, {"harm": np.zeros(800)}) is None


def test_vectors_are_compared_and_other_objects_are_not():
    vectors = np.tile(np.random.default_rng(4).normal(size=(200, 2)), (2, 1))
    assert repeated_decisions_warning(400, vectors, {"harm": np.zeros(400)}) is not None
    objects = np.array([{"a": 1}] * 400, dtype=object)
    assert repeated_decisions_warning(400, objects, {"harm": np.zeros(400)}) is None


def test_one_long_text_does_not_make_all_rows_as_long():
    """Texts of one width would take 320 MB here."""
    asked = np.array([f"question {k}" for k in range(400)] * 2, dtype=object)
    asked[5] = asked[405] = "a long document " * 6250
    harm = {"harm": np.zeros(800)}
    tracemalloc.start()
    try:
        assert repeated_decisions_warning(asked, np.arange(400.0).repeat(2), harm) is None
        assert repeated_decisions_warning(asked, np.tile(np.arange(400.0), 2), harm) is not None
        assert tracemalloc.get_traced_memory()[1] < 2e7
    finally:
        tracemalloc.stop()


def test_frames_of_several_kinds_of_columns_are_compared():
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(300), unit="D")
    frame = pd.DataFrame({"day": day, "user": [f"user {k}" for k in range(300)]})
    both, actions = pd.concat([frame, frame]), np.tile(np.arange(300.0), 2)
    assert repeated_decisions_warning(both, actions, {"harm": np.zeros(600)}) is not None
