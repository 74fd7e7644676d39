"""Names of items: hashes, and what is kept of them."""

import numpy as np

from tether._core.kernels import merge_all
from tether.risk import item_names
from tether.risk.item_names import ItemNames, ShareOfHashes, name_hashes, repeated_hashes


def names_of(*blocks):
    return merge_all(ItemNames.of(np.array(block)) for block in blocks)


def test_equal_texts_have_equal_hashes_whatever_stands_beside_them():
    short = name_hashes(np.array(["a", "ab", "é"]))
    long = name_hashes(np.array(["ab", "a much longer text", "a", "é"]))
    assert short.tolist() == [long[2], long[0], long[3]]
    many = name_hashes(np.array([f"item {number}" for number in range(100_000)]))
    assert len(np.unique(many)) == 100_000


def test_blocks_are_apart_only_if_none_overlaps():
    assert names_of([4, 7], [8], [1, 3]).apart()
    assert names_of(["b", "c"], ["a"], ["ca"]).apart()
    assert not names_of([1, 5], [2, 3]).apart()
    assert not names_of([1, 9], [2], [3]).apart()
    assert not names_of([1, 5], [5, 6]).apart()
    assert not names_of([5], [5]).apart()


def test_whether_hashes_are_kept_does_not_depend_on_the_order(monkeypatch):
    monkeypatch.setattr(item_names, "HASHES_AT_ONCE", 4)
    blocks = [ItemNames.of(np.arange(start, start + 2)) for start in (0, 2, 4)]
    assert blocks[0].merge(blocks[1]).hashes is not None
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        merged = merge_all(blocks[place] for place in order)
        assert (merged.hashes, merged.n_items, merged.n_shares) == (None, 6, 2)
    assert blocks[0].merge(blocks[1].merge(blocks[2])).hashes is None


def test_every_name_is_in_one_share_and_shares_are_about_equal():
    for names in (np.arange(30_000), np.array([f"item {n}" for n in range(30_000)])):
        shares = [ShareOfHashes(number, 3).partial(names).hashes[0] for number in range(3)]
        assert sorted(np.concatenate(shares)) == sorted(name_hashes(names))
        assert all(abs(len(share) - 10_000) < 500 for share in shares)


def test_repeated_hashes_are_those_that_occur_more_than_once():
    one, other = np.array([5, 1, 9], np.uint64), np.array([9, 2, 5, 3], np.uint64)
    assert repeated_hashes((one, other, one)).tolist() == [1, 5, 9]
    assert repeated_hashes((one,)).tolist() == []
