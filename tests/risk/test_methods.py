"""Each method on claims against its definition, with ties, empty and one-sided items."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tests.scale import scaled

LOSSES = st.sampled_from(["fdr", "any_false", "miss"])
METHODS = {
    "gcrc": (tether.gcrc, brute_force.gcrc),
    "crc": (tether.crc, brute_force.crc),
    "monotonized_crc": (
        tether.monotonized_crc,
        lambda rows, alpha, **more: brute_force.crc(brute_force.monotonized(rows), alpha, **more),
    ),
}


def agree(found, thresholds, index, safer="larger"):
    """Where nothing passes: the safest threshold, which is −inf beyond the lowest score seen."""
    assert found.exists == (index >= 0)
    safest = thresholds[0] if safer == "larger" else -np.inf
    assert found.threshold == (thresholds[index] if index >= 0 else safest)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=scaled(50), deadline=None)
@given(items=brute_force.ITEMS, alpha=brute_force.ALPHAS, loss=LOSSES)
def test_every_distinct_score(method, items, alpha, loss):
    fast, slow = METHODS[method]
    thresholds = brute_force.candidates(items, loss)
    rows = brute_force.table(items, loss, thresholds)
    found = fast(tether.Claims(*brute_force.flat(items)), alpha=float(alpha), loss=loss)
    index = slow(rows, alpha)
    agree(found, thresholds, index, found.safer)
    assert found.n_candidates == len(thresholds)
    nonmonotone = brute_force.nonmonotone_items(rows)
    can_fall = loss == "fdr" and max(map(len, items)) > 1
    assert found.monotone == (not nonmonotone and not can_fall)
    assert found.n_nonmonotone == len(nonmonotone)
    assert found.nonmonotone_items == tuple(nonmonotone[:5])
    if method == "monotonized_crc":
        rows = brute_force.monotonized(rows)
    risks = [float(brute_force.conservative(rows, j)) for j in range(len(thresholds))]
    assert found.risk == pytest.approx(risks[max(index, 0)])
    order = np.argsort(thresholds)
    assert found.curve()[0].tolist() == [thresholds[j] for j in order]
    assert found.curve()[1] == pytest.approx([risks[j] for j in order])


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=scaled(50), deadline=None)
@given(
    items=brute_force.ITEMS,
    alpha=brute_force.ALPHAS,
    loss=LOSSES,
    chosen=st.lists(st.integers(-8, 9), min_size=1, max_size=6, unique=True),
)
def test_thresholds_chosen_beforehand(method, items, alpha, loss, chosen):
    fast, slow = METHODS[method]
    chosen = sorted(k / 8 for k in chosen)
    thresholds = chosen if loss == "miss" else chosen[::-1]
    rows = brute_force.table(items, loss, thresholds)
    claims = tether.Claims(*brute_force.flat(items))
    found = fast(claims, chosen, alpha=float(alpha), loss=loss)
    agree(found, thresholds, slow(rows, alpha))
    assert found.n_nonmonotone == len(brute_force.nonmonotone_items(rows))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=scaled(50), deadline=None)
@given(items=brute_force.ITEMS, alpha=brute_force.ALPHAS, loss=LOSSES, data=st.data())
def test_weighted_items(method, items, alpha, loss, data):
    fast, slow = METHODS[method]
    weights = data.draw(
        st.lists(st.integers(0, 4), min_size=len(items), max_size=len(items)).filter(any)
    )
    test = data.draw(st.one_of(st.none(), st.integers(1, 6)))
    thresholds = brute_force.candidates(items, loss)
    rows = brute_force.table(items, loss, thresholds)
    used = max(weights) if test is None else test
    index = slow(rows, alpha, weights=weights, test=used)
    claims = tether.Claims(*brute_force.flat(items))
    found = fast(claims, alpha=float(alpha), loss=loss, weights=weights, test_weight=test)
    agree(found, thresholds, index, found.safer)
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + 700  # only proportions matter, and nothing may overflow
    again = fast(
        claims,
        alpha=float(alpha),
        loss=loss,
        log_weights=logs,
        log_test_weight=None if test is None else float(np.log(test) + 700),
    )
    agree(again, thresholds, index, again.safer)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=scaled(50), deadline=None)
@given(
    rows=st.integers(1, 6).flatmap(
        lambda m: st.lists(
            st.lists(st.integers(0, 8), min_size=m, max_size=m), min_size=1, max_size=10
        )
    ),
    alpha=brute_force.ALPHAS,
    bound=st.sampled_from([1, 2]),
    data=st.data(),
)
def test_a_loss_matrix(method, rows, alpha, bound, data):
    fast, slow = METHODS[method]
    exact = [[Fraction(cell * bound, 8) for cell in row] for row in rows]
    columns = np.arange(len(rows[0]))[::-1]  # given safest last
    found = fast(np.array(exact, dtype=float)[:, ::-1], alpha=float(alpha), bound=bound)
    agree(found, columns, slow(exact, alpha, bound=bound))
    assert found.n_nonmonotone == len(brute_force.nonmonotone_items(exact))
    size = len(rows)
    weights = data.draw(st.lists(st.integers(0, 4), min_size=size, max_size=size).filter(any))
    weighted = fast(
        np.array(exact, dtype=float)[:, ::-1], alpha=float(alpha), bound=bound, weights=weights
    )
    agree(weighted, columns, slow(exact, alpha, bound=bound, weights=weights, test=max(weights)))


@settings(max_examples=scaled(50), deadline=None)
@given(
    items=brute_force.ITEMS, alpha=brute_force.ALPHAS, name=st.sampled_from(["fdr", "any_false"])
)
def test_a_callable_loss_agrees_with_the_built_in_one(items, alpha, name):
    def loss(supported, kept):
        false = np.count_nonzero(kept & ~supported)
        return (false > 0) if name == "any_false" else false / max(np.count_nonzero(kept), 1)

    claims = tether.Claims(*brute_force.flat(items))
    for method, _ in METHODS.values():
        slow = method(claims, alpha=float(alpha), loss=loss)
        fast = method(claims, alpha=float(alpha), loss=name)
        assert (slow.threshold, slow.exists) == (fast.threshold, fast.exists)
        assert slow.n_nonmonotone == fast.n_nonmonotone


@settings(max_examples=scaled(50), deadline=None)
@given(items=brute_force.ITEMS, alpha=brute_force.ALPHAS, other=brute_force.ALPHAS)
def test_several_losses_take_the_safest_threshold(items, alpha, other):
    claims = tether.Claims(*brute_force.flat(items))
    levels = [float(alpha), float(other)]
    for method in (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt):
        both = method(claims, alpha=levels, loss=["fdr", "any_false"])
        alone = [
            method(claims, alpha=levels[0]),
            method(claims, alpha=levels[1], loss="any_false"),
        ]
        assert both.exists == all(found.exists for found in alone)
        assert both.threshold == max(found.threshold for found in alone)
        assert [part.threshold for part in both.by_loss] == [both.threshold] * 2


@settings(max_examples=scaled(50), deadline=None)
@given(items=brute_force.ITEMS, alpha=brute_force.ALPHAS)
def test_one_sweep_serves_all_methods(items, alpha):
    claims = tether.Claims(*brute_force.flat(items))
    swept = tether.risk.sweep(claims)
    for method in (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt):
        swept_once, alone = method(swept, alpha=float(alpha)), method(claims, alpha=float(alpha))
        assert (swept_once.threshold, swept_once.risk) == (alone.threshold, alone.risk)
        assert swept_once.exists == alone.exists


@settings(max_examples=scaled(50), deadline=None)
@given(items=brute_force.ITEMS, alpha=brute_force.ALPHAS, data=st.data())
def test_a_loss_of_keeping_nothing_is_weighted_too(items, alpha, data):
    """Half the bound for an empty answer, and the false share otherwise."""

    def loss(supported, kept):
        return np.count_nonzero(kept & ~supported) / kept.sum() if kept.any() else 0.5

    def exact(item, threshold):
        kept = any(score >= threshold for score, _ in item)
        return brute_force.fdr(item, threshold) if kept else Fraction(1, 2)

    size = len(items)
    weights = data.draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    thresholds = brute_force.candidates(items, "fdr")
    rows = [[exact(item, t) for t in thresholds] for item in items]
    index = brute_force.gcrc(rows, alpha, weights=weights, test=max(weights))
    claims = tether.Claims(*brute_force.flat(items))
    found = tether.gcrc(claims, alpha=float(alpha), loss=loss, weights=weights)
    agree(found, thresholds, index)
    index = brute_force.crc(
        brute_force.monotonized(rows), alpha, weights=weights, test=max(weights)
    )
    found = tether.monotonized_crc(claims, alpha=float(alpha), loss=loss, weights=weights)
    agree(found, thresholds, index)
