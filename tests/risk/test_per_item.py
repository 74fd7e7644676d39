"""Values per item: by position only where the order of the items is the user's own."""

import numpy as np
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
