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


def test_a_ratio_that_no_bin_can_hold_is_refused():
    with pytest.raises(ValueError, match="log ratios of up to"):
        bin_terms(Bins(), np.array([0.0, 1e12]), np.ones(2), None)
