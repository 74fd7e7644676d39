"""The promise as the target, against trying every level by the definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tether.risk import promised_level

METHODS = {"gcrc": tether.gcrc, "crc": tether.crc, "monotonized_crc": tether.monotonized_crc}


def _boldest_promised(method, losses, target, **options):
    """Judge each threshold at the smallest level that selects it; keep the boldest promised."""
    if method is tether.monotonized_crc:
        sums = np.maximum.accumulate(losses[:, ::-1], axis=1).sum(axis=0)
    else:
        sums = losses.sum(axis=0)
    levels = sorted((sums + 1) / (len(losses) + 1))
    judged = {}
    for level in levels:
        if level <= target * (1 + 1e-10):
            part = method(losses, alpha=min(level, target), **options)
            if part.exists:
                judged.setdefault(part.threshold, part)
    kept = [part for part in judged.values() if part.promise <= target * (1 + 1e-10)]
    return min(kept, key=lambda part: part.threshold, default=None)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(1, 5).flatmap(
        lambda m: st.lists(
            st.lists(st.integers(0, 8), min_size=m, max_size=m), min_size=2, max_size=14
        )
    ),
    copies=st.integers(1, 4),
    target=brute_force.ALPHAS,
    name=st.sampled_from(sorted(METHODS)),
    lipschitz=st.sampled_from([None, 0.02, 0.5]),
)
def test_it_is_the_boldest_threshold_whose_stated_promise_is_at_most_the_target(
    rows, copies, target, name, lipschitz
):
    losses = np.array(rows * copies, dtype=float) / 8
    options = {"lipschitz": lipschitz} if name == "gcrc" and lipschitz else {}
    expected = _boldest_promised(METHODS[name], losses, float(target), **options)
    found = METHODS[name](losses, promise=float(target), **options)
    assert found.exists == (expected is not None)
    assert found.target == float(target)
    if expected is not None:
        assert found.threshold == expected.threshold
        assert found.alpha <= float(target)
        assert found.promise <= float(target) * (1 + 1e-10)
        assert found.useful
        again = METHODS[name](losses, alpha=found.alpha, **options)
        assert (again.threshold, again.promise) == (found.threshold, found.promise)
    else:
        assert not found.useful
        assert found.promise == found.bound


@pytest.mark.filterwarnings("ignore:are labels or scores inverted")
@settings(max_examples=100, deadline=None)
@given(items=brute_force.ITEMS, target=brute_force.ALPHAS, copies=st.integers(1, 5))
def test_a_harmless_safest_threshold_and_monotone_losses_make_it_alpha_itself(
    items, target, copies
):
    claims = tether.Claims(*brute_force.flat(items * copies))
    for method in (tether.gcrc, tether.crc):
        named = method(claims, promise=float(target), loss="any_false")
        plain = method(claims, alpha=float(target), loss="any_false")
        assert (named.exists, named.threshold) == (plain.exists, plain.threshold)
    exact = Fraction(target)
    named = tether.ltt(claims, promise=float(exact), confidence=0.5)
    plain = tether.ltt(claims, alpha=float(exact), confidence=0.5)
    assert (named.threshold, named.alpha) == (plain.threshold, float(exact))
    assert named.exists == plain.exists


def test_the_stated_promise_is_kept_where_alpha_leaves_no_room_for_its_terms():
    rng = np.random.default_rng(2)
    losses = (rng.random((300, 1)) < np.linspace(0.4, 0.06, 30)).astype(float)
    losses[:, ::2] = np.roll(losses[:, ::2], 1, axis=0)  # not monotone item by item
    at_alpha = tether.gcrc(losses, alpha=0.1)
    assert at_alpha.promise > 0.1
    found = tether.gcrc(losses, promise=0.1)
    assert found.exists
    assert found.promise <= 0.1
    assert found.threshold >= at_alpha.threshold
    assert "(asked for: at most 0.1)" in " ".join(str(found).split())


def test_many_levels_are_thinned_but_not_the_boldest():
    ranks = promised_level._ranks(1_000_000)
    assert ranks[:64].tolist() == list(range(64))
    assert ranks[-1] == 999_999
    assert len(ranks) < 300
    assert (ranks[65:] / ranks[64:-1]).max() <= 1.06
    for count in (1, 63, 64):
        assert promised_level._ranks(count).tolist() == list(range(count))
    assert promised_level._ranks(65).tolist() == list(range(65))


def test_groups_and_several_losses_have_a_promise_each():
    rng = np.random.default_rng(3)
    losses = np.maximum.accumulate(rng.random((200, 6)), axis=1)[:, ::-1] * 0.5
    found = tether.gcrc(losses, promise=0.35, groups=np.arange(200) % 2)
    assert all(part.promise <= 0.35 for part in found.groups.values())
    assert found.useful == all(part.exists for part in found.groups.values())
    both = tether.gcrc({"a": losses, "b": losses / 2}, promise={"a": 0.45, "b": 0.4})
    assert both.exists
    assert [part.target for part in both.by_loss] == [0.45, 0.4]
    assert all(part.promise <= part.target for part in both.by_loss)


@pytest.mark.parametrize("method", [*METHODS.values(), tether.ltt])
def test_exactly_one_of_alpha_and_promise(method):
    for options in ({}, {"alpha": 0.1, "promise": 0.1}):
        with pytest.raises(ValueError, match=r"exactly one of alpha, .* and promise"):
            method(np.zeros((30, 2)), **options)
    with pytest.raises(ValueError, match="promise must be above 0 and below 1, got 2"):
        method(np.zeros((30, 2)), promise=2)


def test_several_losses_that_are_not_monotone_cannot_be_promised_together():
    dips = np.tile([0.1, 0.05, 0.12], (60, 1))
    losses = {"cost": dips, "harm": np.full((60, 3), 0.1)}
    for method in (tether.gcrc, tether.crc):
        with pytest.raises(ValueError, match="these are not: cost"):
            method(losses, promise=0.3)
    assert tether.monotonized_crc(losses, promise=0.3).exists
