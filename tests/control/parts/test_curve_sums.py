"""Risks at many betas: those at each of them one by one, and the same bits in any order."""

import numpy as np
import pytest

from tests.control.parts.worlds import marginal_world
from tests.scale import scaled
from tether.control.parts import curve_sums, row_sums
from tether.control.parts.row_sums import SumRisks
from tether.control.parts.weights import WeightsOfPart

WORLDS = 30


def curves(world, seed, **order):
    found = world.in_parts(np.random.default_rng(seed), **order)
    return [found.curve(each.name, points=9) for each in found.constraints]


def test_a_curve_is_the_one_that_takes_beta_after_beta(monkeypatch):
    compared = 0
    for seed in range(scaled(WORLDS)):
        world = marginal_world(np.random.default_rng(seed))
        try:
            split = curves(world, seed)
        except ValueError:
            continue
        with monkeypatch.context() as patched:
            patched.setattr(curve_sums, "can_split", lambda weights: False)
            slow = row_sums.TestWeights
            patched.setattr("tether.control.parts.diagnostics.find_test_weights", slow)
            each = curves(world, seed)
        for one, other in zip(split, each, strict=True):
            np.testing.assert_array_equal(one.log_beta, other.log_beta)
            np.testing.assert_allclose(one.risk, other.risk, rtol=1e-12, atol=0)
            compared += len(one.risk)
    assert compared > 3 * scaled(WORLDS)


def test_any_order_of_rows_and_parts_gives_the_same_bits():
    for seed in range(scaled(10)):
        world = marginal_world(np.random.default_rng(seed))
        try:
            first = curves(world, 1, pieces=2)
        except ValueError:
            continue
        for one, other in zip(first, curves(world, seed, pieces=5, shuffle=True), strict=True):
            np.testing.assert_array_equal(one.log_beta, other.log_beta)
            np.testing.assert_array_equal(one.risk, other.risk)


@pytest.mark.parametrize("family", ["clip", "mix"])
def test_rows_are_split_only_where_weights_have_no_normalizing_constant_of_their_own(family):
    from tether.control.families import find_family

    named = find_family(family)
    for direct in (True, False):
        weights = WeightsOfPart(named, None, 0.0, direct)
        asked = curve_sums.RisksAtBetas(weights, (0.0, 1.0), None)
        assert isinstance(asked.kernel, SumRisks) != direct
        kernel = curve_sums.find_test_weights(weights, (0.0, 1.0))
        assert isinstance(kernel, curve_sums.SplitTestWeights) == (direct and family == "clip")
