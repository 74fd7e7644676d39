"""The k-th smallest of values in parts, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tether._core.kernels import Several, merge_all
from tether.control.parts import order_statistics as module


class Values:
    def of(self, part):
        return part


class Pieces:
    def __init__(self, values, pieces):
        self.parts = np.array_split(values, pieces)

    def reduce(self, kernel):
        found = merge_all(Several((kernel.of(part),)) for part in self.parts)
        return found.each


@pytest.mark.parametrize("limit", [0, 5, 1 << 20])
def test_every_rank_is_found_whatever_may_be_collected(limit, monkeypatch):
    monkeypatch.setattr(module, "MAX_GATHERED", limit)
    rng = np.random.default_rng(0)
    values = np.concatenate((rng.normal(size=300), rng.normal(size=50) * 1e9, np.full(40, 0.5)))
    values = np.append(values, [0.0, -0.0, np.inf, -np.inf, 5e-324])
    ranks = np.arange(len(values))
    found = module.order_statistics([(Pieces(values, 4), Values())], ranks)
    assert np.array_equal(found, np.sort(values))


def test_quantiles_are_those_of_numpy():
    values = np.random.default_rng(1).normal(size=333)
    shares = np.linspace(0, 1, 101)
    found = module.quantiles(Pieces(values, 5), Values(), 333, shares, np.exp, 0.5)
    assert found == pytest.approx(np.quantile(np.exp(values - 0.5), shares), rel=1e-14)
