"""The condition of clip in pieces: its values, its roots, and ties that pass."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.direct_formulas import LONG
from tether.control.constraint import Constraint
from tether.control.problem import pose
from tether.control.solvers.segments import (
    Carry,
    Segments,
    Terms,
    condition_terms,
    fits_one_scale,
    nonzero_terms,
)


def direct(terms, carry, lo, t):
    """h at each t by the definition, with what comes from outside the interval."""
    t = np.asarray(t, dtype=LONG)

    def part(ratio, amount):
        return amount * np.exp(np.minimum(ratio - t[..., None], 0))

    decay = np.exp(lo - t)
    tops = part(terms.top_ratio, terms.top_amount).max(axis=-1, initial=carry.top_above)
    rows = part(terms.ratio, terms.amount).sum(axis=-1) + carry.above + carry.below * decay
    return rows + np.maximum(tops, carry.top_below * decay)


def random_terms(rng, rows, tops, scale):
    ratio = np.round(rng.normal(size=rows) * scale, int(rng.integers(0, 4)))
    return Terms(
        ratio, rng.normal(size=rows), rng.normal(size=tops) * scale, rng.exponential(size=tops)
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 3.0, 900.0]), st.booleans())
@settings(max_examples=100, deadline=None)
def test_segments_are_h_at_their_edges(seed, scale, carried):
    rng = np.random.default_rng(seed)
    terms = random_terms(rng, int(rng.integers(1, 30)), int(rng.integers(1, 10)), scale)
    every = np.append(terms.ratio, terms.top_ratio)
    lo, hi = every.min(), every.max()
    carry = Carry(*np.abs(rng.normal(size=4)) * [1, -1, 1, 1]) if carried else Carry()
    segments = Segments.build(terms, lo, hi, carry)
    expected = direct(terms, carry, lo, segments.edge).astype(float)
    assert segments.value == pytest.approx(expected, rel=1e-9, abs=1e-12)
    elsewhere = np.sort(rng.uniform(lo, hi, size=7))
    exact = direct(terms, Carry(), lo, elsewhere).astype(float)
    assert Segments.at(elsewhere, terms).value == pytest.approx(exact, rel=1e-9, abs=1e-12)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_roots_are_where_h_turns_positive(seed):
    rng = np.random.default_rng(seed)
    terms = random_terms(rng, 12, 4, 1.0)
    every = np.append(terms.ratio, terms.top_ratio)
    segments = Segments.build(terms, every.min(), every.max(), Carry())
    end = np.arange(1, len(segments.edge))
    roots = segments.roots(end)
    for left, right, root in zip(segments.edge[:-1], segments.edge[1:], roots, strict=True):
        grid = np.linspace(left, right, 200)
        positive = direct(terms, Carry(), left, grid) > 1e-12
        if root == np.inf:
            assert not positive.any()
        else:
            assert left <= root <= right
            assert not positive[grid < root - 1e-9].any()
            if left < root < right:
                assert float(direct(terms, Carry(), left, root)) == pytest.approx(0, abs=1e-9)


def test_the_root_after_the_last_edge_and_without_one_row():
    terms = Terms(np.array([0.0, 1.0]), np.array([-1.0, 0.2]), np.empty(0), np.empty(0))
    segments = Segments.build(terms, 0.0, 1.0, Carry(above=0.1))
    # After the last ratio h = 0.1 + (0.2·e − 1)·e^−t.
    assert segments.roots(np.array([2]))[0] == pytest.approx(np.log((1 - 0.2 * np.e) / 0.1))
    # Without the first row, which has decayed to e^−1 at the last edge, h is positive at once.
    assert segments.roots(np.array([2]), 0.0, -np.exp(-1.0))[0] == pytest.approx(1.0)


def posed(loss, **how):
    log = tether.Log(loss, np.zeros(len(loss)), np.zeros(len(loss)), **how)
    draws = {} if "log_mix" not in how else {"log_mix": [0.0]}
    return pose(log, tether.Proposals([0.0], [0.5], **draws), tether.Clip(), "empirical")


def test_terms_of_the_condition():
    constraint = Constraint("loss", 0.25, 1.0)
    terms = condition_terms(posed(np.array([0.0, 1.0])), constraint)
    assert terms.amount == pytest.approx([-0.25, 0.75])
    assert (terms.top_ratio, terms.top_amount) == (pytest.approx([0.5]), pytest.approx([0.75]))
    mixed = condition_terms(posed(np.array([0.0, 1.0]), log_mix=[0.0, -2.0]), constraint)
    assert mixed.log_scale == 2.0
    assert mixed.amount == pytest.approx([-0.25 * np.exp(-2), 0.75])
    assert mixed.top_amount == pytest.approx([0.75 * np.exp(-2)])


def test_terms_that_never_contribute_are_left_out():
    terms = Terms(
        np.array([0.0, -np.inf, 1.0]),
        np.array([1.0, 1.0, 0.0]),
        np.array([-np.inf, 0.0, 1.0]),
        np.array([1.0, 0.0, 2.0]),
    )
    kept = nonzero_terms(terms)
    assert (kept.ratio.tolist(), kept.amount.tolist()) == ([0.0], [1.0])
    assert (kept.top_ratio.tolist(), kept.top_amount.tolist()) == ([1.0], [2.0])
    assert nonzero_terms(kept) is kept


def test_amounts_that_do_not_fit_one_scale_of_floats():
    assert fits_one_scale(posed(np.zeros(2)))
    assert fits_one_scale(posed(np.zeros(2), log_mix=[0.0, -400.0]))
    assert not fits_one_scale(posed(np.zeros(2), log_mix=[0.0, -600.0]))
