"""Tables of bins: exact sums, whatever the order of the rows and the size of the amounts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tether.control.parts import bin_sums
from tether.control.parts.bin_sums import bin_terms
from tether.control.parts.binned_condition import signed_sum
from tether.control.parts.ratio_bins import Bins

COLUMNS = ("key", "count", "digits")


def terms(rng, rows):
    ratio = rng.normal(size=rows) * rng.choice([0.01, 3.0, 800.0])
    amount = rng.normal(size=rows) * 10.0 ** rng.integers(-12, 12, rows)
    amount[rng.random(rows) < 0.1] = 0.0
    ratio[rng.random(rows) < 0.1] = -np.inf
    return ratio, amount


@pytest.mark.parametrize("seed", range(20))
def test_tables_of_any_parts_merge_to_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    ratio, amount = terms(rng, 300)
    base = None if seed % 2 else rng.normal(size=300) * 400
    whole = bin_terms(Bins(), ratio, amount, base)
    order = rng.permutation(300)
    merged = None
    for part in np.array_split(order, 7):
        table = bin_terms(Bins(), ratio[part], amount[part], None if base is None else base[part])
        merged = table if merged is None else table.merge(merged)
    for name in COLUMNS:
        assert np.array_equal(getattr(whole, name), getattr(merged, name))


@pytest.mark.parametrize("seed", range(10))
def test_the_sum_of_a_table_is_that_of_its_amounts(seed):
    rng = np.random.default_rng(seed)
    ratio, amount = terms(rng, 200)
    exact = sum(
        (Fraction(a) for a, r in zip(amount, ratio, strict=True) if r > -np.inf), Fraction()
    )
    found = signed_sum(bin_terms(Bins(), ratio, amount, None), 0)
    size = float(np.abs(amount[ratio > -np.inf]).sum())
    assert abs(found - float(exact)) <= 1e-13 * size


def test_the_polynomial_of_a_bin_is_the_exponential_up_to_rounding():
    y = np.linspace(0, 1 / 256, 10_001)
    assert np.abs(bin_sums.less_than_one(y) + np.expm1(-y)).max() <= 1e-17


@pytest.mark.parametrize("seed", range(5))
def test_amounts_are_added_as_integers_rounded_half_to_even(seed, monkeypatch):
    monkeypatch.setattr(bin_sums, "MOST_ADDED", 40)
    rng = np.random.default_rng(seed)
    unit = 2.0**-46
    amount = 256 * rng.random(200) ** rng.choice([1, 40], 200)
    less = amount / 256 * rng.random(200)
    for values in (amount, less):  # halves, the edges of upper digits, and the smallest
        values[:40] = np.floor(values[:40] / unit) * unit + unit / 2 * (values[:40] < 64)
    amount[40:60] = (rng.integers(1, 2**28, 20) * 2.0**26 + rng.integers(-1, 2, 20)) * unit
    amount[60:80] = (2 * rng.integers(1, 2**27, 20) + 1) * 2.0**25 * unit
    place = rng.integers(0, 5, 200)
    sums, plain = bin_sums.AmountSums(6), bin_sums.Sums(6)
    for rows in np.array_split(np.arange(200), 7):
        sums.add(place[rows], less[rows].copy(), amount[rows].copy())
        plain.add(place[rows], less[rows].copy())
    used, count, digits = sums.finished()
    assert used.tolist() == [0, 1, 2, 3, 4]
    other = plain.table(used, used, np.zeros((5, 2), dtype=np.int64))
    for k in range(5):
        rows = np.flatnonzero(place == k)
        whole, below = (
            sum(round(Fraction(each) * 2**46) for each in values[rows].tolist())
            for values in (amount, less)
        )
        assert count[k] == other.count[k] == len(rows)
        assert _integers(digits[k]) == [whole, whole - below]
        assert _integers(other.digits[k]) == [0, -below]


def _integers(digits):
    return [(int(digits[k]) << 26) + int(digits[k + 1]) for k in (0, 2)]


def test_a_ratio_that_no_bin_can_hold_is_refused():
    with pytest.raises(ValueError, match="log ratios of up to"):
        bin_terms(Bins(), np.array([0.0, 1e12]), np.ones(2), None)
