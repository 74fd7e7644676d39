"""Sums over policies, one after the other, are those over all at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.rounds.mixture_sums import Density, MixtureSums, RowSums


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 30), st.booleans())
def test_sums_are_those_of_all_policies_at_once(seed, policies, rows, own):
    rng = np.random.default_rng(seed)
    log = rng.normal(-300, 40, size=(policies, rows))
    log[rng.random(log.shape) < 0.1] = -np.inf
    error = np.where(np.isneginf(log), 0.0, rng.exponential(0.2, size=log.shape))
    counts, served = rng.integers(0, 50, size=policies), rng.integers(policies, size=rows)
    log[served, np.arange(rows)] = -300.0
    sums = RowSums.empty((rows,), own=own)
    for k in range(policies):
        exact = k % 3 == 0
        error[k] *= not exact
        density = Density(log[k], None if exact else error[k])
        sums = sums.with_policy(k, int(counts[k]), density, served)
    with np.errstate(divide="ignore", under="ignore"):
        terms = np.log(counts)[:, None] + log
        squares = np.where(error > 0, 2 * (terms + np.log(error)), -np.inf)
    if own:
        squares[served, np.arange(rows)] = -np.inf
        np.testing.assert_array_equal(sums.own.log, log[served, np.arange(rows)])
        np.testing.assert_array_equal(sums.own.errors, error[served, np.arange(rows)])
    np.testing.assert_allclose(sums.log_sum, np.logaddexp.reduce(terms), rtol=1e-12)
    np.testing.assert_allclose(sums.log_squares, np.logaddexp.reduce(squares), rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(1, 3))
def test_rows_summed_in_parts_are_those_summed_at_once(seed, rows, actions):
    """To the last bit, whatever the parts are."""
    rng = np.random.default_rng(seed)
    shape = (rows,) if actions == 1 else (rows, actions)
    log, served = rng.normal(-20, 9, size=(5, *shape)), rng.integers(5, size=rows)
    error = rng.exponential(size=(5, rows)) if actions == 1 else [None] * 5

    def summed(part):
        sums = RowSums.empty((len(served[part]), *shape[1:]), own=True)
        for k in range(5):
            error_of_part = None if error[k] is None else error[k][part]
            sums = sums.with_policy(k, 3 + k, Density(log[k][part], error_of_part), served[part])
        return sums

    cut = int(rng.integers(rows + 1))
    joined, whole = (
        RowSums.join([summed(slice(0, cut)), summed(slice(cut, rows))]),
        summed(slice(None)),
    )
    np.testing.assert_array_equal(joined.log_sum, whole.log_sum)
    np.testing.assert_array_equal(joined.log_squares, whole.log_squares)
    np.testing.assert_array_equal(joined.own.log, whole.own.log)
    np.testing.assert_array_equal(joined.own.errors, whole.own.errors)


def test_what_is_kept_continues_only_with_the_same_counts():
    sums = RowSums.empty((4, 2), own=False)
    kept = MixtureSums(folded=((2, 10), (3, 7)), counts=((2, 10), (3, 7), (5, 4)), sums=sums)
    continued = ((2, 10), (3, 7), (5, 6))
    assert kept.continues(continued, (4, 2), own=False)
    assert kept.continues(continued, (9, 2), own=False)
    for counts, shape, own in [
        (((2, 10), (3, 8), (5, 6)), (9, 2), False),  # an earlier count has changed
        (((3, 7), (5, 6)), (9, 2), False),  # a round is retired
        (((1, 1), *continued), (9, 2), False),  # a round has its first row
        (continued, (3, 2), False),
        (continued, (9, 3), False),
        (continued, (9, 2), True),
    ]:
        assert not kept.continues(counts, shape, own=own)


@pytest.mark.parametrize(
    ("counts", "changed"),
    [(((2, 1), (3, 2)), 0), (((2, 1), (3, 2), (4, 9)), 1), (((2, 1), (3, 5), (4, 9)), 2), ((), 0)],
)
def test_how_many_of_the_last_rounds_have_changed(counts, changed):
    assert MixtureSums(counts=((2, 1), (3, 2))).changed(counts) == changed
