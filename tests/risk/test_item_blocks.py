"""Blocks of whole items: every row once, and items in one piece."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.risk import parts as in_parts
from tether.risk import item_blocks
from tether.risk.claim_parts import ClaimKernel
from tether.risk.claim_survey import Survey


@settings(max_examples=100, deadline=None)
@given(
    names=st.lists(st.integers(-5, 30), min_size=1, max_size=80),
    size=st.integers(1, 20),
    ordered=st.booleans(),
    texts=st.booleans(),
)
def test_blocks_hold_every_row_once_and_items_whole_and_in_order(names, size, ordered, texts):
    item = np.sort(names) if ordered else np.array(names)
    item = np.sort(item.astype(str)) if texts and ordered else item.astype(str) if texts else item
    columns = {"item": item, "row": np.arange(len(item))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(item_blocks, "CLAIMS_PER_ITEM_BLOCK", size)
        blocks = list(item_blocks.item_blocks(columns, "item"))
    if len(item) <= size:
        assert len(blocks) == 1
        assert blocks[0] is columns
        return
    expected = np.argsort(item, kind="stable")
    assert np.concatenate([block["row"] for block in blocks]).tolist() == expected.tolist()
    for block in blocks:
        assert block["item"].tolist() == item[block["row"]].tolist()
    for before, after in pairwise(blocks):
        assert before["item"][-1] < after["item"][0]
        assert len(before["item"]) >= size

        assert len(before["item"]) - size < np.sum(before["item"] == before["item"][-1])


@pytest.mark.parametrize(
    "columns",
    [
        {"item": [3, 1, 2], "score": np.zeros(3)},
        {"item": np.array([3, 1, 2]), "score": np.ma.masked_array(np.zeros(3), [0, 1, 0])},
        {"item": np.array([3.0, np.nan, 2.0]), "score": np.zeros(3)},
        {"item": np.array([3, 1, 2]), "score": np.zeros(4)},
        {"item": np.array([[3], [1], [2]]), "score": np.zeros(3)},
    ],
)
def test_columns_that_must_be_checked_as_a_whole_stay_together(monkeypatch, columns):
    monkeypatch.setattr(item_blocks, "CLAIMS_PER_ITEM_BLOCK", 1)
    if isinstance(columns["item"], list):
        columns["item"] = np.array(columns["item"], dtype=object)
    (block,) = item_blocks.item_blocks(columns, "item")
    assert block is columns


def test_an_error_counts_rows_from_the_first_of_the_part(monkeypatch):
    monkeypatch.setattr(item_blocks, "CLAIMS_PER_ITEM_BLOCK", 2)
    columns = in_parts.columns_of(np.random.default_rng(0), 20)
    columns["item"], columns["score"] = columns["item"][::-1], columns["score"].copy()
    columns["score"][13] = np.nan
    with pytest.raises(ValueError, match=r"scores\[13\]"):
        ClaimKernel(in_parts.COLUMNS, (Survey(),)).partial(columns)
