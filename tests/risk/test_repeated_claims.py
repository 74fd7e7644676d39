"""Claims as their own items, and items that are in a table twice, are told."""

import warnings

import numpy as np
import pytest

import tether
from tether.risk.repeated_claims import repeated_claims_warning, single_claims_warning


def table(seed=0, items=60, sizes=(2, 7), digits=None):
    """Scores, labels and items, one row per claim."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(items), rng.integers(*sizes, size=items))
    scores = rng.random(len(item))
    labels = rng.random(len(item)) < scores
    return scores if digits is None else scores.round(digits), labels, item


def joined(columns, rows):
    return [np.concatenate([column, column[rows]]) for column in columns]


def says_repeated(columns):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tether.AssumptionWarning)
        return repeated_claims_warning(tether.Claims.from_table(*columns)) is not None


@pytest.mark.parametrize("digits", [None, 1])
def test_a_table_joined_to_itself_is_told_with_the_first_item_and_the_rows(digits):
    columns = table(digits=digits)
    twice = joined(columns, slice(None))
    with pytest.warns(tether.AssumptionWarning) as told:
        tether.Claims.from_table(*twice)
    assert "the first is item 0" in str(told[0].message)
    if digits is None:
        assert "60 of 60 items occur more than once" in str(told[0].message)
        assert f"({len(twice[0])} rows" in str(told[0].message)
    assert told[0].filename == __file__


def test_files_that_overlap_in_some_items_and_three_copies_are_told():
    columns = table()
    assert says_repeated(joined(columns, columns[2] < 5))
    assert not says_repeated(joined(columns, columns[2] < 2))  # it takes some items
    assert says_repeated(joined(joined(columns, slice(None)), slice(len(columns[0]))))


@pytest.mark.parametrize("seed", range(3))
def test_items_that_occur_twice_are_found_among_many_whose_answers_repeat_claims(seed):
    """Scores of one digit and long answers: in most of them a claim occurs twice by chance."""
    columns = table(seed, 1000, (5, 30), digits=1)
    assert not says_repeated(columns)
    assert says_repeated(joined(columns, columns[2] < 100))
    with pytest.warns(tether.AssumptionWarning, match="1,000 of 1,000 items occur more than once"):
        tether.Claims.from_table(*joined(columns, slice(None)))


@pytest.mark.parametrize("levels", [2, 3, 5])
@pytest.mark.parametrize("half", [1, 3, 10])
def test_answers_of_an_even_number_of_claims_are_no_copies(levels, half):
    """Then no answer can have a single claim that occurs oddly often."""
    rng = np.random.default_rng(levels)
    for _ in range(20):
        item = np.repeat(np.arange(300), 2 * rng.integers(1, half + 1, size=300))
        scores = rng.integers(levels, size=len(item)) / levels
        assert not says_repeated((scores, rng.random(len(item)) < 0.9, item))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("sizes", [(1, 5), (2, 3), (4, 5), (6, 9)])
@pytest.mark.parametrize("digits", [0, 1, 2, None])
def test_rounded_scores_are_no_copies(seed, sizes, digits):
    assert not says_repeated(table(seed, 80, sizes, digits))


def test_scores_of_answers_and_answers_that_repeat_a_claim_are_no_copies():
    scores, labels, item = table()
    assert not says_repeated((np.random.default_rng(0).random(60)[item], item % 2 == 0, item))
    first_claims = np.unique(item, return_index=True)[1]
    assert not says_repeated(joined((scores, labels, item), first_claims))


@pytest.mark.parametrize("saturated", [False, True])
def test_answers_under_other_names_are_told(saturated):
    scores, labels, item = table(sizes=(3, 8))
    if saturated:
        scores = np.where(np.arange(len(scores)) % 3 == 0, 1.0, scores)
    rng = np.random.default_rng(1)
    copies = [(scores, labels, 3 * item + k) for k in range(3)]
    columns = [np.concatenate(column) for column in zip(*copies, strict=True)]
    order = rng.permutation(len(columns[0]))
    with pytest.warns(
        tether.AssumptionWarning,
        match="at least 120 of 180 items have exactly the scores of another item \\(the",
    ):
        tether.Claims.from_table(*(column[order] for column in columns))
    two = [np.concatenate([a, a[item < 2]]) for a in (scores, labels)]
    assert not says_repeated((*two, np.r_[item, item[item < 2] + 1000]))  # it takes some items
    five = [np.concatenate([a, a[item < 5]]) for a in (scores, labels)]
    assert says_repeated((*five, np.r_[item, item[item < 5] + 1000]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("values", [2, 30, 300, 1000, 3000, 100_000])
def test_many_items_of_two_claims_with_rounded_scores_are_no_copies(seed, values):
    rng = np.random.default_rng(seed)
    scores, item = rng.integers(values, size=2000) / values, np.repeat(np.arange(1000), 2)
    assert not says_repeated((scores, rng.random(2000) < scores, item))


@pytest.mark.parametrize("method", [tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt])
def test_every_method_tells_where_each_claim_is_its_own_item(method):
    scores, labels, item = table()
    own = tether.Claims.from_table(scores, labels, np.arange(len(item)))
    with pytest.warns(tether.AssumptionWarning, match="each of the .* items has exactly one claim"):
        found = method(own, alpha=0.3, loss="any_false")
    assert any("has exactly one claim" in each for each in found.warnings)
    right = method(tether.Claims.from_table(scores, labels, item), alpha=0.3, loss="any_false")
    assert not any("exactly one claim" in each for each in right.warnings)


def test_few_items_unnamed_items_and_labels_are_not_told():
    scores, labels, _ = table()
    assert single_claims_warning(tether.Claims(scores, labels, range(len(scores) + 1))) is None
    few = tether.Claims.from_table(scores[:20], labels[:20], range(20))
    assert single_claims_warning(few) is None
    assert single_claims_warning(tether.ScoredLabels(scores, labels)) is None


def test_claims_in_parts_are_told_too(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    scores, labels, item = table()
    columns = {"score": scores, "label": labels, "item": np.arange(len(item))}
    parquet.write_table(pyarrow.table(columns), tmp_path / "claims.parquet")
    scanned = tether.Claims.scan(
        tmp_path / "claims.parquet", scores="score", supported="label", items="item"
    )
    with pytest.warns(tether.AssumptionWarning, match="has exactly one claim"):
        tether.gcrc(scanned, alpha=0.3, loss="any_false")


def test_copies_with_rounded_scores_are_counted_as_at_least_so_many():
    rng = np.random.default_rng(0)
    scores, items = rng.random(3000).round(3), np.repeat(np.arange(600), 5)
    twice = np.concatenate([items, items + 600])
    with pytest.warns(tether.AssumptionWarning, match=r"at least \d+ of 1,200 .* and 600 with"):
        tether.Claims.from_table(np.tile(scores, 2), np.tile(scores, 2) > 0.3, twice)
