"""Bins of log ratio: where a ratio lies, and the candidates of each bin."""

from __future__ import annotations

import numpy as np
import pytest

from tether.control.parts.ratio_bins import Bins, BinTable, bin_tops


def test_every_ratio_lies_in_its_bin_coarse_or_fine():
    rng = np.random.default_rng(0)
    ratio = np.concatenate((rng.normal(size=200) * 5, [-1e6, 1e6, 0.0, -0.0, 1 / 256]))
    number, inside = Bins().place(ratio)
    left, right = Bins().edges(number)
    assert inside is None
    assert ((left <= ratio) & (ratio < right)).all()
    fine = Bins(np.array([-1.0, 0.5]), np.array([-0.5, 0.75]))
    number, inside = fine.place(ratio)
    left, right = fine.edges(number)
    assert ((left <= ratio[inside]) & (ratio[inside] < right)).all()
    expected = ((ratio >= -1) & (ratio < -0.5)) | ((ratio >= 0.5) & (ratio < 0.75))
    assert np.array_equal(inside, expected)


def test_the_largest_candidates_of_each_bin_are_kept():
    ratio, base = np.array([0.1, 0.1, 0.1001, 5.0]), np.array([-1.0, -3.0, -1.5, 0.0])
    table = bin_tops(Bins(), ratio, base)
    assert table.base.tolist() == [-1.0, 0.0]
    assert table.rising[0] == pytest.approx(-0.9)


@pytest.mark.parametrize("seed", range(10))
def test_tables_merge_to_the_sums_of_each_key(seed):
    rng = np.random.default_rng(seed)

    def table(rows):
        key = np.sort(rng.choice(12, rows, replace=False))
        digits = rng.integers(0, 1 << 26, (rows, 4))
        return BinTable(key, rng.integers(1, 9, rows), digits)

    first, second = table(rng.integers(0, 9)), table(rng.integers(0, 9))
    merged = first.merge(second)
    expected = {}
    for each in (first, second):
        for key, count, digits in zip(each.key.tolist(), each.count, each.digits, strict=True):
            sums = expected.setdefault(key, [0, 0, 0])
            for k, value in enumerate([count, *((digits[::2] << 26) + digits[1::2])]):
                sums[k] += int(value)
    assert merged.key.tolist() == sorted(expected)
    assert (merged.digits[:, 1::2] < 1 << 26).all()
    whole = (merged.digits[:, ::2] << 26) + merged.digits[:, 1::2]
    found = np.column_stack((merged.count, whole)).tolist()
    assert found == [expected[key] for key in sorted(expected)]
