"""Batches: every row once, within the budget, rows of like length together."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.llm.local.batched_model import (
    MAX_PADDING_FACTOR,
    MIN_ROWS_TO_SPLIT,
    pack_prompts,
    pack_rows,
)

rows = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60)), max_size=80)


@settings(deadline=None)
@given(rows, st.integers(1, 600))
def test_every_row_once_and_never_too_many(pairs, most):
    before, after = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in (0, 1))
    batches = list(pack_rows(before, after, most))
    assert sorted(np.concatenate([*batches, []]).astype(int).tolist()) == list(range(len(pairs)))
    for batch in batches:
        taken = len(batch) * (before[batch].max() + after[batch].max())
        assert taken <= most or len(batch) == 1
        if len(batch) > MIN_ROWS_TO_SPLIT:
            assert taken <= MAX_PADDING_FACTOR * (before[batch] + after[batch]).sum()


def test_long_rows_do_not_widen_short_ones():
    after = np.array([5] * 40 + [100] * 40)
    order = np.random.default_rng(0).permutation(80)
    batches = list(pack_prompts(after[order], 10**6))
    widths = [set(after[order][batch]) for batch in batches]
    assert widths.count({5}) == 1
    assert sum(len(batch) * max(width) for batch, width in zip(batches, widths, strict=True)) < (
        MAX_PADDING_FACTOR * after.sum()
    )


def test_nothing_is_no_batch():
    assert list(pack_prompts(np.array([], dtype=np.int64), 10)) == []
