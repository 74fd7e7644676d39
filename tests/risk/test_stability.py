"""Replace-one stability by replacing every item."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tests.scale import scaled
from tether._core.first_passage import first_past
from tether.risk import replaced_items, stability
from tether.risk.claim_steps import losses_at
from tether.risk.item_weights import ItemWeights
from tether.risk.sweep_losses import prepare


def slow_moves(rows, thresholds, alpha, bound=1):
    """How far the threshold moves when item i costs 0, or the bound, at every threshold."""
    chosen = thresholds[max(brute_force.gcrc(rows, alpha, bound=bound), 0)]
    moves = []
    for i in range(len(rows)):
        largest = 0
        for b in (0, bound):
            replaced = [*rows[:i], [Fraction(b)] * len(thresholds), *rows[i + 1 :]]
            moved = thresholds[max(brute_force.gcrc(replaced, alpha, bound=bound), 0)]
            largest = max(largest, 0 if moved == chosen else abs(moved - chosen))
        moves.append(largest)
    return moves


@pytest.mark.slow
@settings(max_examples=scaled(80), deadline=None)
@given(
    items=brute_force.ITEMS,
    alpha=brute_force.ALPHAS,
    loss=st.sampled_from(["fdr", "any_false", "miss"]),
    copies=st.integers(1, 3),
    chosen=st.one_of(
        st.none(), st.lists(brute_force.SCORES, min_size=1, max_size=6, unique=True).map(sorted)
    ),
)
def test_moves_of_claims_agree_with_replacing_every_item(items, alpha, loss, copies, chosen):
    items = items * copies
    thresholds = brute_force.candidates(items, loss)
    if chosen is not None:
        thresholds = chosen if loss == "miss" else chosen[::-1]
    rows = brute_force.table(items, loss, thresholds)
    claims = tether.Claims(*brute_force.flat(items))
    sweep = prepare(claims, chosen, loss, 1.0, ItemWeights())
    moved = stability.threshold_moves(sweep, float(alpha))
    assert moved.tolist() == slow_moves(rows, thresholds, alpha)


@settings(max_examples=scaled(80), deadline=None)
@given(
    rows=st.integers(1, 6).flatmap(
        lambda m: st.lists(
            st.lists(st.integers(0, 8), min_size=m, max_size=m), min_size=1, max_size=10
        )
    ),
    alpha=brute_force.ALPHAS,
)
def test_moves_of_a_matrix_agree_with_replacing_every_item(rows, alpha):
    exact = [[Fraction(cell, 4) for cell in row] for row in rows]
    given = np.array(exact, dtype=float)[:, ::-1]
    thresholds = [2.0**-j for j in range(len(rows[0]))]
    sweep = prepare(given, thresholds[::-1], None, 2.0, ItemWeights())
    slow = slow_moves(exact, thresholds, alpha, bound=2)
    assert stability.threshold_moves(sweep, float(alpha)).tolist() == slow
    found = tether.gcrc(given, thresholds[::-1], alpha=float(alpha), bound=2, lipschitz=0.5)
    if found.exists:
        epsilon = sum(slow) / (len(rows) + 1)
        assert found.stability == pytest.approx(epsilon)
        assert found.stability_detail.largest == max(slow)
        if not found.monotone:
            stated = float(alpha) + 0.5 * epsilon + found.existence_term
            assert found.promise == pytest.approx(min(2, stated))


# The window of candidates in which an item can become the first violation, at its edges. Scores are
# in quarters, so that all sums are exact.
WINDOWS = {
    "the sum jumps across the window at one candidate": [[(0.5, False)]] * 12 + [[(0.25, True)]],
    "the window is the last candidate only": [[(0.75, True), (0.25, False)]] * 12,
    "no candidate is beyond the window": [[(0.75, False)]] * 5
    + [[(0.5, True)]] * 5
    + [[(0.25, False)]],
    "a claim at the last candidate decides": [[(1.0, True)]]
    + [[(0.75, False)]] * 5
    + [[(0.5, True)]] * 4
    + [[(-4.0, False)]],
    "the window begins at the safest candidate": [[(0.25 * k, k % 2 == 0)] for k in range(4)],
    "the candidate beyond the window is one further": [[(0.75, False)]] * 5
    + [[(0.5, False)], [(0.25, False)], [(0.0, False)], [(-0.25, False)], [(0.5, True)]],
}


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("alpha", [Fraction(k, 8) for k in range(1, 8)])
def test_moves_at_the_edges_of_the_window(case, alpha):
    """Recompute gCRC with each item replaced, for claims and for the same losses as a matrix."""
    items = WINDOWS[case]
    thresholds = brute_force.candidates(items, "fdr")
    rows = brute_force.table(items, "fdr", thresholds)
    expected = slow_moves(rows, thresholds, alpha)
    claims = prepare(tether.Claims(*brute_force.flat(items)), None, "fdr", 1.0, ItemWeights())
    assert stability.threshold_moves(claims, float(alpha)).tolist() == expected
    matrix = np.array(rows, dtype=float)[:, ::-1]
    swept = prepare(matrix, thresholds[::-1], None, 1.0, ItemWeights())
    assert stability.threshold_moves(swept, float(alpha)).tolist() == expected


def test_moves_in_many_small_worlds_agree_with_replacing_every_item():
    """Seeded, so that the same worlds are tried everywhere."""
    rng = np.random.default_rng(20)
    for _ in range(60):
        shape = (int(rng.integers(1, 8)), int(rng.integers(1, 6)))
        cells = rng.integers(0, 5, shape)
        exact = [[Fraction(int(cell), 4) for cell in row] for row in cells]
        alpha = Fraction(int(rng.integers(1, 16)), 16)
        thresholds = [2.0**-j for j in range(shape[1])]
        swept = prepare(cells[:, ::-1] / 4, thresholds[::-1], None, 1.0, ItemWeights())
        moves = stability.threshold_moves(swept, float(alpha))
        assert moves.tolist() == slow_moves(exact, thresholds, alpha)


def test_class_rates_have_a_stability_and_ratios_do_not():
    data = tether.ScoredLabels(np.arange(100) / 100, np.arange(100) % 3 > 0)
    found = tether.gcrc(data, alpha=0.3, loss="false_positive")
    rows = [
        [Fraction(int(s >= t)) for t in found.curve()[0][::-1]] for s in np.arange(0, 100, 3) / 100
    ]
    slow = slow_moves(rows, found.curve()[0][::-1], Fraction(3, 10))
    assert found.stability == pytest.approx(sum(slow) / 35)
    assert tether.gcrc(data, [0.2, 0.4], alpha=0.5).stability_detail is None


@settings(max_examples=100, deadline=None)
@given(
    pairs=st.lists(st.tuples(brute_force.SCORES, st.booleans()), min_size=1, max_size=25),
    alpha=brute_force.ALPHAS,
    loss=st.sampled_from(["false_positive", "false_negative"]),
)
def test_moves_of_class_rates_agree_with_replacing_every_item(pairs, alpha, loss):
    up = loss == "false_negative"
    among = [score for score, label in pairs if label == up]
    if not among:
        return
    thresholds = brute_force.candidates([pairs], "miss" if up else "fdr")
    rows = [[Fraction((score >= t) != up) for t in thresholds] for score in among]
    sweep = prepare(tether.ScoredLabels(*zip(*pairs, strict=True)), None, loss, 1.0, ItemWeights())
    assert stability.threshold_moves(sweep, float(alpha)).tolist() == slow_moves(
        rows, thresholds, alpha
    )


@pytest.mark.filterwarnings("ignore:are labels or scores inverted")
def test_a_plateau_at_the_limit_takes_no_quadratic_work(monkeypatch):
    """Every item has claims on a long stretch where the sum stays within a bound of the limit."""
    queries, cells = [], []

    def counted_first_past(values, level, start):
        queries.append(len(level))
        return first_past(values, level, start)

    def counted_losses_at(claims, loss, bound, thresholds):
        cells.append(claims.n_items * len(thresholds))
        return losses_at(claims, loss, bound, thresholds)

    monkeypatch.setattr(replaced_items, "first_past", counted_first_past)
    monkeypatch.setattr("tether.risk.claim_sweep.losses_at", counted_losses_at)
    items = 40_000
    scores = np.random.default_rng(9).random((items, 3))
    supported = np.ones((items, 3))
    supported[:4000], scores[:4000] = 0, 2.0
    claims = tether.Claims(scores.ravel(), supported.ravel(), np.arange(0, 3 * items + 1, 3))
    assert tether.gcrc(claims, alpha=4001.5 / (items + 1)).stability >= 0
    labels = tether.ScoredLabels(np.arange(items) / items, np.arange(items) % 20000 != 19999)
    assert tether.gcrc(labels, alpha=0.9, loss="false_positive").stability >= 0
    assert 0 < sum(queries) <= 3 * 4 * items  # three per piece; items × window would be 10¹⁰ cells
    assert sum(cells) <= 2 * items


def test_measuring_the_stability_can_be_turned_off():
    assert (
        tether.gcrc(np.zeros((30, 2)), alpha=0.1, measure_stability=False).stability_detail is None
    )


# Appendix C.1.2 of the paper: three losses, whose bag gCRC fails by half of alpha.
ALPHA = 0.4
BAG = 1.5 * ALPHA * np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0.5, 0, 1, 0]])


def test_the_counterexample_bounded_losses_are_not_enough():
    """Leave each item out in turn: gCRC walks right up to where that item costs the bound."""
    bound = 1.5 * ALPHA
    deployed = []
    for i in range(3):
        found = tether.gcrc(np.delete(BAG, i, axis=0), alpha=ALPHA, bound=bound)
        assert found.threshold == i
        deployed.append(BAG[i, int(found.threshold)])
    assert np.mean(deployed) == pytest.approx(bound)
    assert np.mean(deployed) > ALPHA
    assert found.stability > 0
    safe = [
        tether.monotonized_crc(np.delete(BAG, i, axis=0), alpha=ALPHA, bound=bound)
        for i in range(3)
    ]
    assert np.mean([BAG[i, int(s.threshold)] for i, s in enumerate(safe)]) <= ALPHA
