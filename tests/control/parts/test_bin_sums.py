"""Tables of bins: exact sums, whatever the order of the rows and the size of the amounts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tether.control.parts import bin_sums
from tether.control.parts.bin_sums import bin_terms, bin_two_amounts
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


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_two_amounts_have_the_table_that_any_rows_have(seed):
    rng = np.random.default_rng(seed)
    rows = 20_000
    ratio = rng.normal(size=rows) * rng.choice([0.001, 2.0])
    ratio[rng.random(rows) < 0.1] = -np.inf
    second = rng.random(rows) < 0.3
    amounts = np.array(
        [(-0.1, 0.9), (-0.3, 0.0), (-1e-5, 700.0), (0.9, -0.1), (-3e-9, -1e9)][seed % 5]
    )
    found = bin_two_amounts(ratio, second, amounts)
    assert found is not None
    expected = bin_terms(Bins(), ratio, amounts[second.astype(int)], None)
    for name in COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_two_amounts_that_share_a_row_of_the_table_are_left_to_the_general_way():
    ratio, second = np.zeros(3), np.array([True, False, True])
    assert bin_two_amounts(ratio, second, np.array([0.5, 0.6])) is None


def test_more_rows_than_one_integer_can_add_are_still_exact():
    ratio = np.full(3 * bin_sums.MOST_ADDED, -1 / 256 + 1e-12)  # as far from the edge as can be
    second = np.zeros(len(ratio), dtype=bool)
    table = bin_two_amounts(ratio, second, np.array([255.0, -1.0]))
    one = bin_two_amounts(ratio[:1], second[:1], np.array([255.0, -1.0]))
    assert table is not None
    assert one is not None

    def rising(of):
        return (int(of.digits[0, 2]) << 26) + int(of.digits[0, 3])

    assert rising(table) == len(ratio) * rising(one)


def test_the_polynomial_of_a_bin_is_the_exponential_up_to_rounding():
    y = np.linspace(0, 1 / 256, 10_001)
    assert np.abs(bin_sums._less_than_one(y) + np.expm1(-y)).max() <= 1e-17


def test_a_ratio_that_no_bin_can_hold_is_refused():
    with pytest.raises(ValueError, match="log ratios of up to"):
        bin_terms(Bins(), np.array([0.0, 1e12]), np.ones(2), None)
