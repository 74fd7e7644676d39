"""What a scan of claims checks: whole items, rows, columns of items."""

import numpy as np
import pytest

import tether
from tests.risk import parts as in_parts
from tether.risk import item_blocks, item_names

pytestmark = pytest.mark.filterwarnings("ignore:these claims have groups")
"""Rows of all tests have groups, also where they are not used."""


def part(item, **others):
    size = len(item)
    columns = {
        "score": np.linspace(0, 1, size),
        "label": np.ones(size, bool),
        "item": np.array(item),
    }
    return {**columns, "group": np.zeros(size, int), "weight": np.ones(size), **others}


@pytest.mark.parametrize(("name", "shown"), [(7, "7"), ("seven", "'seven'")])
def test_an_item_in_two_parts_is_named(name, shown):
    other = 1 if name == 7 else "one"
    claims = in_parts.scanned([part([name, name]), part([other]), part([name])])
    with pytest.raises(ValueError, match=f"item {shown} is in several parts"):
        tether.gcrc(claims, alpha=0.5)


@pytest.mark.parametrize("at_once", [1, 2, 1 << 21])
def test_two_names_with_the_same_hash_are_no_error(monkeypatch, at_once):
    monkeypatch.setattr(item_names, "HASHES_AT_ONCE", at_once)
    monkeypatch.setattr(
        item_names, "name_hashes", lambda names: np.zeros(len(names), dtype=np.uint64)
    )
    claims = in_parts.scanned([part(["a", "c"]), part(["b"])])
    assert claims.n_items == claims.n_claims == 3


def test_parts_in_the_order_of_their_items_need_no_further_pass(monkeypatch):
    monkeypatch.setattr(item_names, "HASHES_AT_ONCE", 2)
    monkeypatch.setattr(item_blocks, "CLAIMS_PER_ITEM_BLOCK", 2)
    claims = in_parts.scanned([part([5, 4, 4, 3, 6]), part([1, 0, 0, 2])])
    assert (claims.n_items, claims.parts.passes) == (7, 1)
    assert claims.survey.names.hashes is None


@pytest.mark.parametrize("names", [np.arange(12), np.array([f"item {n}" for n in range(12)])])
def test_many_names_are_compared_in_several_passes(monkeypatch, names):
    monkeypatch.setattr(item_names, "HASHES_AT_ONCE", 5)
    even, odd = part(names[::2]), part(names[1::2])
    claims = in_parts.scanned([even, odd])
    assert (claims.n_items, claims.parts.passes) == (12, 4)  # all columns, and 12 / 5 times names
    copied = in_parts.scanned([even, odd, part(names[[3, 4]])])
    with pytest.raises(ValueError, match="is in several parts"):
        tether.gcrc(copied, alpha=0.5)
    monkeypatch.setattr(item_names.ItemNames, "apart", lambda self: True)
    assert tether.gcrc(copied, alpha=0.5).n_items == 14  # the comparison is what finds it


def test_names_that_change_between_two_passes_are_an_error(monkeypatch):
    monkeypatch.setattr(item_names, "HASHES_AT_ONCE", 1)
    parts = ChangingParts([part([1, 3]), part([2])], [part([1, 4]), part([2, 3])])
    claims = tether.risk.scanned_claims.ScannedClaims(parts, in_parts.COLUMNS)
    with pytest.raises(ValueError, match="gave other rows in a second pass: 3 items, then 4"):
        tether.gcrc(claims, alpha=0.5)


def test_no_rows_and_rows_that_contradict_each_other_are_errors():
    with pytest.raises(ValueError, match="has no rows"):
        tether.gcrc(in_parts.scanned([]), alpha=0.1)
    with pytest.raises(ValueError, match="weight must be the same for all claims of an item"):
        tether.gcrc(in_parts.scanned([part([1, 1], weight=np.array([1.0, 2.0]))]), alpha=0.1)
    with pytest.raises(ValueError, match="groups must be the same for all claims of an item"):
        tether.gcrc(in_parts.scanned([part([1, 1], group=np.array([1, 2]))]), alpha=0.1)
    with pytest.raises(ValueError, match="score"):
        tether.gcrc(in_parts.scanned([part([1, 1], score=np.array([1, np.nan]))]), alpha=0.1)
    with pytest.raises(TypeError, match="items must hold one integer or string"):
        tether.gcrc(in_parts.scanned([part([1.5, 2.0])]), alpha=0.1)


def test_sizes_of_groups_are_counted_over_parts():
    claims = in_parts.scanned(
        [part([1, 2], group=np.array([0, 1])), part([3], group=np.array([1]))]
    )
    assert claims.group_sizes() == {0: 1, 1: 2}


class ChangingParts(in_parts.ArrayParts):
    """Parts of which a second pass reads others."""

    def __init__(self, parts, later):
        super().__init__(parts)
        self.later = later

    def reduce(self, kernel):
        found = super().reduce(kernel)
        self.parts = self.later
        return found


def changed(columns, name, change):
    return {**columns, name: change(columns[name])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: {key: value[:-1] for key, value in rows.items()}, "40 items, then 119 of 40"),
        (lambda rows: changed(rows, "score", lambda s: s / 2), "120 of 40 with other values"),
        (lambda rows: changed(rows, "label", lambda y: ~y), "120 of 40 with other values"),
        (lambda rows: changed(rows, "weight", lambda w: 2 * w), "120 of 40 with other values"),
        (lambda rows: changed(rows, "item", lambda i: i // 2), "120 of 20"),
    ],
)
def test_rows_that_change_between_two_passes_are_an_error(change, message):
    rng = np.random.default_rng(0)
    rows = part(np.repeat(np.arange(40), 3), score=rng.random(120), label=rng.random(120) < 0.7)
    claims = tether.risk.scanned_claims.ScannedClaims(
        ChangingParts([rows], [change(rows)]), in_parts.COLUMNS
    )
    with pytest.raises(ValueError, match=f"gave other rows in a second pass: .*{message}"):
        tether.gcrc(claims, alpha=0.3, weights=claims.weights)
    with pytest.raises(ValueError, match="gave other rows"):
        tether.gcrc(claims, alpha=0.3)
    same = tether.risk.scanned_claims.ScannedClaims(
        ChangingParts([rows], [{key: value[::-1] for key, value in rows.items()}]),
        in_parts.COLUMNS,
    )
    assert tether.gcrc(same, alpha=0.3).exists


@pytest.mark.parametrize("column", ["item", "group"])
def test_numbers_in_one_part_and_strings_in_another_are_an_error(column):
    first, second = part([1, 2]), part([3, 4])
    second[column] = second[column].astype(str)
    claims = in_parts.scanned([first, second])
    with pytest.raises(TypeError, match=f"the column '{column}' holds numbers in one part and str"):
        tether.gcrc(claims, alpha=0.5, groups=claims.groups)
