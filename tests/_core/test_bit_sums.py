"""Sums of bits tell values apart, and not their order."""

import numpy as np

from tether._core.bit_sums import MODULUS, sum_bits


def test_order_does_not_matter_and_the_last_bit_does():
    values = np.random.default_rng(0).normal(size=1000)
    assert sum_bits(values) == sum_bits(values[::-1]) == sum_bits(values.tolist())
    changed = values.copy()
    changed[3] = np.nextafter(changed[3], 9)
    assert sum_bits(changed) != sum_bits(values)
    assert (sum_bits(values[:400]) + sum_bits(values[400:])) % MODULUS == sum_bits(values)


def test_nothing_sums_to_zero():
    assert sum_bits([]) == 0
