"""Rows are counted exactly, whichever way they are divided into parts."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import pytest

from tether._core import counted_rows
from tether._core.counted_rows import CountedRows


@pytest.mark.parametrize("contexts", [None, 3, 40, 10**6])
def test_rows_of_the_smallest_contexts_are_counted_the_same_in_any_parts(monkeypatch, contexts):
    monkeypatch.setattr(counted_rows, "KEPT_ROWS", 50)
    rng = np.random.default_rng(0)
    hashes = rng.integers(2**64, size=300, dtype=np.uint64)[rng.integers(300, size=1000)]
    context = hashes
    if contexts is not None:  # a row has one context, and a context some rows
        spread = rng.integers(2**64, size=300, dtype=np.uint64)
        context = spread[(hashes % np.uint64(contexts) % np.uint64(300)).astype(np.int64)]
    expected = sorted(Counter(zip(context.tolist(), hashes.tolist(), strict=True)).items())[:50]
    for parts in (1, 2, 7, 1000):
        pieces = zip(np.array_split(hashes, parts), np.array_split(context, parts), strict=True)
        counted = [CountedRows.of(*(pair if contexts else pair[:1])) for pair in pieces]
        merged = functools.reduce(lambda first, second: first.merge(second), counted)
        pairs = zip(merged.contexts.tolist(), merged.rows.tolist(), strict=True)
        assert list(zip(pairs, merged.times.tolist(), strict=True)) == expected
    times, by_context = merged.in_whole_contexts()
    for value, count in zip(np.unique(context)[: len(by_context)], by_context, strict=True):
        if contexts != 3:  # none of these has all of its rows among the 50
            assert np.count_nonzero(context == value) == count
    assert times.sum() == by_context.sum()
