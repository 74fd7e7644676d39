"""Values per item: by position only where the order of the items is the user's own."""

import numpy as np
import pandas
import pytest

import tether

RNG = np.random.default_rng(5)
N_ITEMS = 600
NAMES = np.array([f"q{i}" for i in range(N_ITEMS)])  # q10 comes before q2 by name
HARD = RNG.random(N_ITEMS) < 0.5
ROWS = np.repeat(np.arange(N_ITEMS), 5)
SCORES = RNG.random(len(ROWS))
SUPPORTED = RNG.random(len(ROWS)) < np.where(HARD[ROWS], SCORES, 0.85 + 0.15 * SCORES)
GROUP_OF_ITEM = np.where(HARD, "hard", "easy")


def _table(**more):
    return tether.Claims.from_table(SCORES, SUPPORTED, NAMES[ROWS], **more)


def _false_share(found):
    """The mean share of false claims kept, over the items, each with its own group's threshold."""
    kept = tether.filter_claims(found, SCORES, groups=GROUP_OF_ITEM[ROWS])
    items = np.bincount(ROWS, weights=kept & ~SUPPORTED) / np.maximum(np.bincount(ROWS, kept), 1)
    return items[HARD].mean(), items[~HARD].mean()


def test_groups_by_position_are_refused_where_items_are_ordered_by_name():
    with pytest.raises(ValueError, match=r"^groups must be a mapping from item name"):
        tether.gcrc(_table(), alpha=0.1, groups=GROUP_OF_ITEM)


def test_groups_by_name_and_by_column_give_each_item_its_own_group():
    by_name = dict(zip(NAMES, GROUP_OF_ITEM, strict=True))
    claims = _table(groups=GROUP_OF_ITEM[ROWS])
    assert claims.groups == by_name
    offsets = np.arange(0, len(ROWS) + 1, 5)
    positional = tether.Claims(SCORES, SUPPORTED, offsets)
    expected = tether.gcrc(positional, alpha=0.1, groups=GROUP_OF_ITEM)
    for groups in (claims.groups, by_name):
        found = tether.gcrc(claims, alpha=0.1, groups=groups)
        for name in ("hard", "easy"):
            assert found.for_group(name).threshold == expected.for_group(name).threshold
        assert max(_false_share(found)) <= 0.1


def test_each_named_item_needs_a_group_and_each_item_has_one():
    by_name = dict(zip(NAMES, GROUP_OF_ITEM, strict=True))
    del by_name["q17"]
    with pytest.raises(ValueError, match=r"groups has no value for 1 of 600 items, .* 'q17'"):
        tether.gcrc(_table(), alpha=0.1, groups=by_name)
    mixed = GROUP_OF_ITEM[ROWS].copy()
    mixed[ROWS == 17] = ["easy", "easy", "hard", "easy", "easy"]
    with pytest.raises(ValueError, match=r"same for all claims of an item, .* item 'q17'"):
        _table(groups=mixed)
    with pytest.raises(ValueError, match="these claims have no groups"):
        _ = _table().groups


def test_a_mapping_needs_names():
    with pytest.raises(ValueError, match="groups is a mapping, which needs items with names"):
        tether.gcrc(np.zeros((4, 2)), alpha=0.5, groups={0: "a"})
    named = tether.Claims([0.9, 0.8], [1, 1], [0, 1, 2], items=["b", "a"])
    found = tether.gcrc(named, alpha=0.6, groups={"a": 1, "b": 2}, minimum_group_size=1)
    assert set(found.groups) == {"1", "2"}
    other = tether.Claims([0.9, 0.8], [1, 1], [0, 1, 2], items=["b", "c"])
    with pytest.raises(ValueError, match="groups needs losses of the same items"):
        tether.gcrc({"x": named, "y": other}, alpha=0.6, groups={"a": 1, "b": 2, "c": 1})


def test_names_of_items_are_all_different_and_follow_their_items():
    with pytest.raises(ValueError, match="items must be all different, got 'a' twice"):
        tether.Claims([0.9, 0.8], [1, 1], [0, 1, 2], items=["a", "a"])
    with pytest.raises(ValueError, match="items has 1 rows"):
        tether.Claims([0.9, 0.8], [1, 1], [0, 1, 2], items=["a"])
    claims = _table()
    assert claims.take([3, 1]).items.tolist() == claims.items[[3, 1]].tolist()
    assert claims.between(2, 5).items.tolist() == claims.items[2:5].tolist()


def test_weights_by_name_too():
    weight = 1 + HARD
    with pytest.raises(ValueError, match=r"^weights must be a mapping from item name"):
        tether.gcrc(_table(), alpha=0.1, weights=weight)
    with pytest.raises(ValueError, match=r"^log_weights must be a mapping from item name"):
        tether.crc(_table(), alpha=0.1, log_weights=np.log(weight))
    found = tether.gcrc(_table(), alpha=0.1, weights=dict(zip(NAMES, weight, strict=True)))
    offsets = np.arange(0, len(ROWS) + 1, 5)
    positional = tether.Claims(SCORES, SUPPORTED, offsets)
    assert found.threshold == tether.gcrc(positional, alpha=0.1, weights=weight).threshold


def test_a_column_with_another_index_than_the_table_is_refused():
    losses = pandas.DataFrame(np.zeros((40, 2)), index=np.arange(40)[::-1])
    groups = pandas.Series(np.arange(40) % 2)
    with pytest.raises(ValueError, match="groups has another index than losses"):
        tether.gcrc(losses, alpha=0.2, groups=groups)
    assert tether.gcrc(losses, alpha=0.2, groups=groups.reindex(losses.index)).exists
    assert tether.gcrc(losses, alpha=0.2, groups=groups.to_numpy()).exists
