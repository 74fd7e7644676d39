"""Constraints: signed losses, ties, and weights that may be wrong by a factor."""

import numpy as np
import pytest

from tether.control.constraint import Constraint


def test_ties_count_as_below_alpha():
    """Ten losses of 0.23 and one of 1 average to 0.3 exactly: the sum must not be positive."""
    constraint = Constraint("loss", 0.3, 1.0)
    signed = constraint.signed(np.full(10, 0.23))
    assert signed == pytest.approx(np.full(10, -0.07))
    assert 10 * (0.23 - 0.3) + 0.7 > 0  # as rounding would have it
    assert 10 * signed[0] + 0.7 < 0
    above = constraint.signed(np.full(3, 0.7))
    assert (above == 0.7 - 0.3).all()


def test_weights_may_be_wrong_by_a_factor():
    """No weights within the factor g make the sum larger than the signed losses do."""
    rng = np.random.default_rng(0)
    constraint = Constraint("loss", 0.3, 1.0, ratio_error=1.4)
    loss = np.array([0.0, 0.2, 0.3, 0.7, 1.0])
    assert constraint.factors(loss) == pytest.approx([1 / 1.4, 1 / 1.4, 1 / 1.4, 1.4, 1.4])
    largest = constraint.signed(loss).sum() + constraint.worst
    off = 1.4 ** rng.uniform(-1, 1, size=(2000, 6))
    sums = (off[:, :5] * (loss - 0.3)).sum(axis=1) + off[:, 5] * 0.7
    assert sums.max() <= largest + 1e-9
    assert largest == pytest.approx((0.4 + 0.7 + 0.7) * 1.4 - (0.3 + 0.1) / 1.4)


def test_another_alpha_keeps_the_factors():
    constraint = Constraint("loss", 0.3, 1.0, ratio_error=2.0)
    loss = np.array([0.0, 0.5, 1.0])
    for moved in (constraint.at(0.0), constraint.at(0.7).at(1.0)):
        assert (moved.factors(loss) == constraint.factors(loss)).all()
    assert Constraint("loss", 0.3, 1.0).factors(loss) == 1.0
