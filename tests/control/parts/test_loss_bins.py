"""Tables of the rows of a log: exact sums, the same bits whichever way and in whatever parts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tether.control.constraint import Constraint
from tether.control.parts import bin_sums, loss_bins
from tether.control.parts.bin_sums import bin_terms
from tether.control.parts.binned_condition import Cells, signed_sum
from tether.control.parts.loss_bins import bin_losses
from tether.control.parts.ratio_bins import NO_TOPS, Bins

COLUMNS = ("key", "count", "digits")
CONSTRAINTS = (
    Constraint("loss", 0.1, 1.0),
    Constraint("loss", 1 / 256, 1.0),
    Constraint("loss", 1e-7, 1.0),
    Constraint("loss", 0.3, 900.0, 1.5),
    Constraint("loss", 0.3, 1.0, 1.5, 0.2),
    Constraint("loss", 1e-300, 1e12),
)


def rows_of(rng, constraint, number, kind):
    """Ratios and losses: any, of two values, or within rounding of alpha."""
    ratio = rng.normal(size=number) * rng.choice([0.001, 2.0, 800.0])
    ratio[rng.random(number) < 0.1] = -np.inf
    if kind == "any":
        loss = constraint.bound * rng.random(number) * 10.0 ** -rng.integers(0, 9, number)
    elif kind == "two":
        loss = np.where(rng.random(number) < 0.3, constraint.bound, 0.0)
    else:
        loss = constraint.alpha * (1 + np.spacing(1.0) * rng.integers(-3, 4, number))
    return ratio, loss


def same(first, second):
    return first[1] == second[1] and all(
        np.array_equal(getattr(first[0], name), getattr(second[0], name)) for name in COLUMNS
    )


@pytest.mark.parametrize("kind", ["any", "two", "alpha"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_table_has_the_sums_of_the_general_way(constraint, kind):
    rng = np.random.default_rng(CONSTRAINTS.index(constraint))
    ratio, loss = rows_of(rng, constraint, 2000, kind)
    table, largest = bin_losses(constraint, ratio, loss)
    amount = constraint.signed(loss)
    expected = bin_terms(Bins(), ratio, amount, None)
    one, two = (Cells.build(Bins(), each, NO_TOPS) for each in (table, expected))
    assert np.array_equal(one.left, two.left)
    assert np.array_equal(one.count, two.count)
    unit = one.count * constraint.alpha * 2.0**-53
    for name in ("log_size", "log_rising"):
        shift = 0.0 if name == "log_size" else one.right
        sums, other = (np.exp(getattr(each, name) - shift) for each in (one, two))
        assert (np.abs(sums - other) <= unit + 1e-13 * other).all()
    finite = amount[ratio > -np.inf]
    with np.errstate(divide="ignore"):
        ends = np.log([max(finite.max(), 0.0), max(-finite.min(), 0.0)])
    assert largest == tuple(ends.tolist())


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_the_sum_of_the_table_is_that_of_its_amounts(constraint):
    rng = np.random.default_rng(7)
    ratio, loss = rows_of(rng, constraint, 500, "any")
    amount = constraint.signed(loss)[ratio > -np.inf]
    exact = float(sum(map(Fraction, amount.tolist()), Fraction()))
    found = signed_sum(bin_losses(constraint, ratio, loss)[0], 0)
    assert abs(found - exact) <= 1e-15 * float(np.abs(amount).sum())


@pytest.mark.parametrize("seed", range(30))
def test_parts_of_any_rows_merge_to_the_same_bits(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    constraint = CONSTRAINTS[seed % len(CONSTRAINTS)]
    pieces = [rows_of(rng, constraint, 60, kind) for kind in ("any", "two", "alpha")]
    ratio, loss = (np.concatenate(each) for each in zip(*pieces, strict=True))
    whole, _ = bin_losses(constraint, ratio, loss)
    monkeypatch.setattr(loss_bins, "ROWS_IN_CACHE", 7)
    if seed % 3 == 0:
        monkeypatch.setattr(loss_bins, "MOST_PLACES", 0)  # only the bins that occur
    # Sorted by loss, many parts have two losses, and a table that is made in the shorter way.
    order = np.argsort(loss) if seed % 2 else rng.permutation(len(loss))
    merged = None
    for part in np.array_split(order, 40):
        table, _ = bin_losses(constraint, ratio[part], loss[part])
        merged = table if merged is None else merged.merge(table)
    assert same((whole, 0), (merged, 0))


def test_rows_of_two_losses_have_the_table_that_any_rows_have(monkeypatch):
    rng = np.random.default_rng(3)
    for constraint in CONSTRAINTS:
        ratio, loss = rows_of(rng, constraint, 20_000, "two")
        found = bin_losses(constraint, ratio, loss)
        finite = ratio > -np.inf
        powers = loss_bins.Powers.of(constraint)
        inside = ratio[finite]
        blocks = loss_bins._Blocks.of(inside, (inside.min(), inside.max()), 2 * len(powers))
        expected = loss_bins._any_amounts(constraint, powers, blocks, loss[finite])
        assert same(found, (expected, found[1]))


def test_a_third_loss_is_found_wherever_it_stands():
    constraint = CONSTRAINTS[0]
    rows = 2 * loss_bins.ROWS_LOOKED_AT
    loss = np.tile([0.0, constraint.bound], rows)
    ratio = np.linspace(-1, 1, len(loss))
    for place in (0, rows, len(loss) - 1):
        third = loss.copy()
        third[place] = constraint.bound / 3
        one = slice(place, place + 1)
        rest, _ = bin_losses(constraint, np.delete(ratio, place), np.delete(third, place))
        table, _ = bin_losses(constraint, ratio[one], third[one])
        assert same((rest.merge(table), 0), (bin_losses(constraint, ratio, third)[0], 0))


def test_ranges_that_are_given_change_nothing():
    rng = np.random.default_rng(4)
    for constraint in CONSTRAINTS:
        for kind in ("any", "two"):
            ratio, loss = rows_of(rng, constraint, 500, kind)
            ranges = (ratio.min(), ratio.max()), (loss.min(), loss.max())
            expected = bin_losses(constraint, ratio, loss)
            assert same(bin_losses(constraint, ratio, loss, *ranges), expected)


@pytest.mark.parametrize("losses", [(0.0, 1.0), (0.0, 0.5, 1.0)])
def test_more_rows_than_one_integer_can_add_are_still_exact(losses):
    constraint = Constraint("loss", 1 / 512, 255 / 256)
    times = 3 * bin_sums.MOST_ADDED // len(losses)
    loss = np.tile(np.array(losses) * constraint.bound, times)
    ratio = np.full(len(loss), -1 / 256 + 1e-12)  # as far from the edge as can be
    table, _ = bin_losses(constraint, ratio, loss)
    one, _ = bin_losses(constraint, ratio[: len(losses)], loss[: len(losses)])
    assert np.array_equal(table.key, one.key)

    def totals(of):
        return [(int(row[k]) << 26) + int(row[k + 1]) for row in of.digits for k in (0, 2)]

    assert totals(table) == [times * each for each in totals(one)]


def test_rows_that_the_optimized_policy_never_takes_make_no_table():
    table, largest = bin_losses(CONSTRAINTS[0], np.full(3, -np.inf), np.ones(3))
    assert len(table.key) == 0
    assert largest == (-np.inf, -np.inf)


def test_a_ratio_that_no_bin_can_hold_is_refused():
    with pytest.raises(ValueError, match="log ratios of up to"):
        bin_losses(CONSTRAINTS[0], np.array([0.0, 1e12]), np.ones(2))
