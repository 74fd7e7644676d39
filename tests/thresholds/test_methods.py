"""The methods against their definitions in exact fractions, and against Figure 2 of the paper."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.scale import scaled
from tests.thresholds import brute_force as exact
from tether.thresholds import crc, ltt

METHODS = {"gcrc": exact.gcrc, "crc": exact.crc, "monotonized_crc": exact.crc}
RULES = st.sampled_from(list(METHODS))


@given(exact.ITEMS, exact.ALPHAS, st.sampled_from(list(exact.LOSSES)), RULES, st.booleans())
@settings(max_examples=scaled(300), deadline=None)
def test_every_distinct_score_is_a_candidate_and_sums_are_exact(items, alpha, loss, name, weighted):
    thresholds = exact.candidates(items, loss)
    rows = exact.table(items, loss, thresholds)
    rows = exact.monotonized(rows) if name == "monotonized_crc" else rows
    weights = [1 + i % 3 for i in range(len(items))] if weighted else None
    more = {"weights": weights, "test": 3} if weighted else {}
    place = METHODS[name](rows, alpha, **more)
    passed = {"weights": weights, "test_weight": 3} if weighted else {}
    claims = tether.Claims(*exact.flat(items))
    found = getattr(tether.thresholds, name)(claims, alpha=float(alpha), loss=loss, **passed)
    assert found.exists == (place >= 0)
    safest = -math.inf if loss == "miss" else math.inf
    assert found.threshold == (thresholds[place] if place >= 0 else safest)
    risk = exact.conservative(rows, max(place, 0), **more)
    assert found.risk == pytest.approx(float(risk), abs=1e-12)
    assert found.n_candidates == len(thresholds)


@given(exact.ITEMS, exact.ALPHAS, st.sampled_from(list(exact.LOSSES)), RULES)
@settings(max_examples=scaled(150), deadline=None)
def test_thresholds_chosen_beforehand_are_those_of_the_same_matrix(items, alpha, loss, name):
    grid = np.array([-0.5, -0.25, 0.1, 0.25, 0.6, math.inf])
    claims, method = tether.Claims(*exact.flat(items)), getattr(tether.thresholds, name)
    direct = method(claims, grid, alpha=float(alpha), loss=loss)
    order = 1 if loss == "miss" else -1
    rows = exact.table(items, loss, grid[::order])
    rows = exact.monotonized(rows) if name == "monotonized_crc" else rows
    place = METHODS[name](rows, alpha)
    assert direct.threshold == grid[::order][max(place, 0)]
    if loss != "miss":
        matrix = np.array(exact.table(items, loss, grid), dtype=float)
        assert method(matrix, grid, alpha=float(alpha)).threshold == direct.threshold


@given(exact.ITEMS, exact.ALPHAS, st.sampled_from(["fdr", "any_false"]))
@settings(max_examples=scaled(120), deadline=None)
def test_the_stability_term_is_the_gap_by_its_definition(items, alpha, loss):
    found = tether.gcrc(tether.Claims(*exact.flat(items)), alpha=float(alpha), loss=loss)
    if found.exists and not found.monotone:
        wanted = float(exact.gap(items, loss, alpha))
        assert found.stability_term == pytest.approx(wanted, abs=1e-9)


def test_a_known_lipschitz_constant_takes_the_moves_of_the_threshold():
    rng = np.random.default_rng(3)
    losses = np.clip(
        rng.random((40, 1)) * np.linspace(1, 0, 30) + rng.normal(0, 0.02, (40, 30)), 0, 1
    )
    found = tether.gcrc(losses, alpha=0.3, lipschitz=2.0)
    moves = []
    for i in range(40):
        others = np.delete(losses, i, axis=0)
        again = [
            tether.gcrc(np.vstack([others, np.full((1, 30), b)]), alpha=0.3).threshold
            for b in (0.0, 1.0)
        ]
        moves.append(max(abs(each - found.threshold) for each in again))
    assert found.stability_term == pytest.approx(2 * sum(moves) / 41)
    assert found.promise == pytest.approx(min(0.3 + 2 * sum(moves) / 41, 1), abs=1e-3)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=4, max_size=40), exact.ALPHAS)
@settings(max_examples=scaled(100), deadline=None)
def test_rates_of_labels_by_their_definitions(rows, alpha):
    scores, labels = np.array([s for s, _ in rows]), np.array([y for _, y in rows])
    for loss, kind in (("false_positive", False), ("false_negative", True)):
        if not (labels == kind).any():
            continue
        found = crc(tether.ScoredLabels(scores, labels), alpha=float(alpha), loss=loss)
        own, count = scores[labels == kind], int((labels == kind).sum())
        passing = []
        for t in [*np.unique(scores), math.inf]:
            wrong = (own >= t).sum() if loss == "false_positive" else (own < t).sum()
            if Fraction(int(wrong) + 1, count + 1) <= alpha:
                passing.append(t)
        assert found.exists == bool(passing)
        if passing:
            bold = min(passing) if loss == "false_positive" else max(passing)
            assert found.threshold == bold
    with pytest.raises(ValueError, match="false_discovery"):
        tether.gcrc(tether.ScoredLabels(scores, labels), alpha=0.1, loss="false_discovery")


def test_a_function_of_the_user_is_swept_as_the_loss_that_it_computes():
    rng = np.random.default_rng(1)
    scores = rng.random(400).round(2)
    claims = tether.Claims(scores, rng.random(400) < scores, np.arange(0, 401, 4))

    def share(supported, kept):
        return (kept & ~supported).sum() / max(kept.sum(), 1)

    own, named = tether.gcrc(claims, alpha=0.2, loss=share), tether.gcrc(claims, alpha=0.2)
    assert (own.threshold, own.risk) == (named.threshold, named.risk)
    share.__name__ = "fdr"
    with pytest.raises(ValueError, match="'fdr'"):
        tether.gcrc(claims, alpha=0.2, loss=share)
    with pytest.raises(ValueError, match=r"loss .*lambda"):
        tether.gcrc(claims, alpha=0.2, loss=lambda supported, kept: 2.0)


def test_false_among_shown_is_about_all_claims_that_are_shown():
    loss = tether.FalseAmongShown(0.2, most_claims=4)
    for n_true, n_false in itertools.product(range(4), range(2)):
        supported = np.array([True] * n_true + [False] * n_false, dtype=bool)
        wanted = 0.2 + (n_false - 0.2 * (n_true + n_false)) / 4
        assert loss(supported, supported | True) == pytest.approx(wanted)
    rng = np.random.default_rng(2)
    scores = rng.random(4000)
    claims = tether.Claims(scores, rng.random(4000) < 0.5 + scores / 2, np.arange(0, 4001, 4))
    grid = np.linspace(0.2, 0.8, 31)
    found = ltt(claims, grid, alpha=0.2, loss=loss)
    assert found.useful
    assert 0.1 < (~claims.supported[scores >= found.threshold]).mean() < 0.2
    assert tether.gcrc(claims, grid, promise=0.2, loss=loss).useful
    scarce = tether.gcrc(claims.take(np.arange(60)), grid, alpha=0.2, loss=loss)
    assert scarce.promise > 0.2  # alpha and its terms: nothing is said of the share
    assert not scarce.useful
    for bad in ({"alpha": 0.3, "thresholds": grid}, {"alpha": 0.2}):
        with pytest.raises(ValueError, match=r"share|thresholds"):
            ltt(claims, loss=loss, **bad)
    with pytest.raises(ValueError, match="most_claims"):
        ltt(claims, grid, alpha=0.2, loss=tether.FalseAmongShown(0.2, 3))
    tether.filter_claims(found, scores, items=claims.owner)
    with pytest.raises(ValueError, match="most_claims = 4"):
        tether.filter_claims(found, np.full(5, 0.5), items=np.zeros(5, dtype=int))
