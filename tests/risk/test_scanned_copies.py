"""Claims in parts are told to be copies with the words of memory, and by the same rule."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tether
from tests.risk.test_repeated_claims import joined, table
from tether._core import counted_rows
from tether.risk.repeated_claims import repeated_claims_warning

NAMES = {"scores": "score", "supported": "label", "items": "item"}


class Partitions:
    """Parts of whole items, in any order of rows; counts how often they are read."""

    def __init__(self, columns, parts, seed=0):
        scores, labels, items = (np.asarray(column) for column in columns)
        self.passes, self.parts = 0, []
        order = np.random.default_rng(seed).permutation(len(items))
        names = np.unique(items)
        owner = np.random.default_rng(seed + 1).integers(parts, size=len(names))
        for k in range(parts):
            rows = order[np.isin(items[order], names[owner == k])]
            if len(rows):
                part = {"score": scores[rows], "label": labels[rows], "item": items[rows]}
                self.parts.append(part)

    def __call__(self, kernel):
        self.passes += 1
        return [kernel.partial(part) for part in self.parts]


def in_memory(columns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tether.AssumptionWarning)
        return repeated_claims_warning(tether.Claims.from_table(*columns))


def in_parts(columns, parts=5):
    return tether.Claims.scan(Partitions(columns, parts), **NAMES).copies_warning


def under_other_names(columns, items):
    """The table with copies of some items, named otherwise."""
    scores, labels, item = columns
    rows = np.flatnonzero(item < items)
    return [
        np.concatenate([scores, scores[rows]]),
        np.concatenate([labels, labels[rows]]),
        np.concatenate([item, item[rows] + 10_000]),
    ]


@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize("digits", [None, 2, 1])
@pytest.mark.parametrize("seed", range(4))
def test_the_words_are_those_of_memory(seed, digits, parts):
    columns = table(seed, 80, (1, 7), digits)
    rng = np.random.default_rng(seed)
    some = np.isin(columns[2], rng.choice(80, 9))
    tables = [
        columns,
        joined(columns, slice(None)),
        joined(columns, some),
        joined(columns, np.unique(columns[2], return_index=True)[1]),
        under_other_names(columns, 80),
        under_other_names(columns, 12),
        under_other_names(columns, 2),
        under_other_names(under_other_names(columns, 30), 30),
    ]
    found = [in_parts(each, parts) for each in tables]
    assert found == [in_memory(each) for each in tables]
    assert found[0] is None
    assert found[1] is not None


def test_a_method_warns_and_its_result_keeps_the_warning():
    claims = tether.Claims.scan(Partitions(under_other_names(table(), 60), 4), **NAMES)
    with pytest.warns(tether.AssumptionWarning, match="exactly the scores of another item"):
        found = tether.gcrc(claims, alpha=0.3, loss="any_false")
    assert any("60 of 120 items" in each for each in found.warnings)


def test_names_that_are_texts_and_items_without_a_second_claim():
    scores, labels, item = under_other_names(table(), 60)
    columns = (scores, labels, np.array([f"item {k}" for k in item]))
    assert in_parts(columns) == in_memory(columns) is not None
    single = (np.r_[scores, scores], np.r_[labels, labels], np.arange(2 * len(scores)))
    assert in_parts(single) is in_memory(single) is None


def test_further_passes_are_made_only_where_items_are_alike():
    for columns, passes in ((table(), 1), (joined(table(), slice(None)), 1)):
        partitions = Partitions(columns, 3)
        _ = tether.Claims.scan(partitions, **NAMES).copies_warning
        assert partitions.passes <= passes + 1  # and one over the names, which overlap
    partitions = Partitions(under_other_names(table(), 60), 3)
    assert tether.Claims.scan(partitions, **NAMES).copies_warning
    assert partitions.passes <= 4


def test_a_sample_of_many_items_tells_of_at_least_those_in_it(monkeypatch):
    monkeypatch.setattr(counted_rows, "KEPT_ROWS", 40)
    columns = under_other_names(table(items=400, sizes=(2, 7)), 400)
    message = in_parts(columns)
    assert message.startswith("at least 40 of 800 items have exactly the scores of another item (")
    assert in_parts(table(items=400, sizes=(2, 7))) is None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("values", [2, 30, 300, 3000])
def test_many_items_of_two_rounded_scores_are_no_copies(seed, values):
    rng = np.random.default_rng(seed)
    scores, item = rng.integers(values, size=2000) / values, np.repeat(np.arange(1000), 2)
    assert in_parts((scores, rng.random(2000) < scores, item)) is None


def test_numbers_and_texts_as_names_are_still_refused():
    first, second = joined(table(), slice(None)), joined(table(), slice(None))
    parts = Partitions(first, 1).parts + Partitions(second, 1).parts
    parts[1]["item"] = parts[1]["item"].astype(str)
    claims = tether.Claims.scan(lambda kernel: [kernel.partial(part) for part in parts], **NAMES)
    with pytest.raises(TypeError, match="numbers in one part and strings in another"):
        _ = claims.copies_warning
