"""Bins of log ratio: where a ratio lies, and the candidates of each bin."""

from __future__ import annotations

import numpy as np
import pytest

from tether.control.parts.ratio_bins import Bins, bin_tops


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
