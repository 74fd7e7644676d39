"""Rates of a yes-or-no decision, each among the items that it is a rate of."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.risk import brute_force
from tests.scale import scaled

PAIRS = st.lists(st.tuples(brute_force.SCORES, st.booleans()), min_size=1, max_size=25)


def rate(pairs, loss, threshold):
    """Numerator and denominator of the rate at a threshold."""
    if loss == "false_discovery":
        selected = [label for score, label in pairs if score >= threshold]
        return selected.count(False), len(selected)
    if loss == "false_positive":
        scores = [score for score, label in pairs if not label]
        return sum(score >= threshold for score in scores), len(scores)
    scores = [score for score, label in pairs if label]
    return sum(score < threshold for score in scores), len(scores)


def slow(pairs, loss, thresholds, alpha, method):
    passing = [
        Fraction(wrong + 1, among + 1) <= alpha
        for wrong, among in (rate(pairs, loss, t) for t in thresholds)
    ]
    if method is tether.crc:
        return max((j for j, passed in enumerate(passing) if passed), default=-1)
    return max((j for j in range(len(passing)) if all(passing[: j + 1])), default=-1)


@settings(max_examples=scaled(150), deadline=None)
@given(
    pairs=PAIRS,
    alpha=brute_force.ALPHAS,
    loss=st.sampled_from(["false_discovery", "false_positive", "false_negative"]),
    method=st.sampled_from([tether.gcrc, tether.crc]),
    chosen=st.one_of(
        st.none(), st.lists(brute_force.SCORES, min_size=1, max_size=6, unique=True).map(sorted)
    ),
)
def test_rates_against_their_definitions(pairs, alpha, loss, method, chosen):
    scores, labels = zip(*pairs, strict=True)
    if rate(pairs, loss, -9)[1] == 0:
        with pytest.raises(ValueError, match="rate is undefined"):
            method(tether.ScoredLabels(scores, labels), alpha=float(alpha), loss=loss)
        return
    up = loss == "false_negative"
    thresholds = [*sorted(set(scores)), np.inf] if chosen is None else chosen
    thresholds = thresholds if up else thresholds[::-1]
    if method is tether.gcrc and loss == "false_discovery" and chosen is None:
        chosen, thresholds = sorted(set(scores)), thresholds[1:]  # its walk needs a start
    found = method(tether.ScoredLabels(scores, labels), chosen, alpha=float(alpha), loss=loss)
    index = slow(pairs, loss, thresholds, alpha, method)
    assert found.exists == (index >= 0)
    if found.exists:
        assert found.threshold == thresholds[index]
        wrong, of = rate(pairs, loss, found.threshold)
        assert found.risk == pytest.approx((wrong + 1) / (of + 1))


@pytest.mark.filterwarnings("ignore:are labels or scores inverted")
@settings(max_examples=scaled(80), deadline=None)
@given(
    pairs=PAIRS,
    copies=st.integers(1, 6),
    alpha=brute_force.ALPHAS,
    kind=st.sampled_from(["hoeffding_bentkus", "betting"]),
    chosen=st.lists(brute_force.SCORES, min_size=1, max_size=5, unique=True).map(sorted),
    procedure=st.sampled_from(["fixed_sequence", "bonferroni"]),
)
def test_false_discovery_is_tested_among_the_selected(
    pairs, copies, alpha, kind, chosen, procedure
):
    pairs = pairs * copies
    scores, labels = zip(*pairs, strict=True)
    shuffled = [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))]
    level = 0.2 if procedure == "fixed_sequence" else 0.2 / len(chosen)
    shown = []
    for t in chosen[::-1]:
        losses = [float(not label) for score, label in shuffled if score >= t]
        if kind == "betting":
            p = brute_force.betting(losses, float(alpha), level, max(len(losses), 1))
        else:
            p = brute_force.hoeffding_bentkus(round(sum(losses)), len(losses), alpha)
        shown.append(p <= level * (1 + 1e-10))
    if procedure == "fixed_sequence":
        index = shown.index(False) - 1 if False in shown else len(shown) - 1
    else:
        index = max((j for j, good in enumerate(shown) if good), default=-1)
    found = tether.ltt(
        tether.ScoredLabels(scores, labels),
        chosen,
        alpha=float(alpha),
        confidence=0.8,
        pvalue=kind,
        procedure=procedure,
    )
    assert found.exists == (index >= 0)
    if found.exists:
        assert found.threshold == chosen[::-1][index]


def test_scores_of_the_other_class_are_candidates_too():
    scores, labels = np.arange(40) / 40, np.arange(40) % 2
    data = tether.ScoredLabels(scores, labels)
    found = tether.crc(data, alpha=0.2, loss="false_positive")
    assert found.n_candidates == 41
    assert found.threshold in scores[labels == 1]  # the lowest that admits no further negative
    assert found.risk == pytest.approx((1 + (scores[labels == 0] >= found.threshold).sum()) / 21)
    found = tether.crc(data, alpha=0.2, loss="false_negative")
    assert found.n_candidates == 41
    assert found.threshold in scores[labels == 1]  # the highest that drops no further positive


def test_class_rates_can_be_tested_by_betting():
    scores, labels = np.arange(400) / 400, np.arange(400) >= 200
    data = tether.ScoredLabels(scores, labels)
    for loss in ("false_positive", "false_negative"):
        found = tether.ltt(data, alpha=0.3, loss=loss, pvalue="betting")
        assert found.exists
        assert 0 < found.risk < 0.4


@pytest.mark.parametrize("method", [tether.gcrc, tether.ltt])
def test_a_walk_for_a_rate_among_the_selected_needs_thresholds(method):
    data = tether.ScoredLabels(np.arange(50) / 50, np.ones(50))
    for loss in (None, "false_discovery"):
        with pytest.raises(
            ValueError,
            match="where nothing is selected: pass thresholds",
        ):
            method(data, alpha=0.1, loss=loss)
    assert method(data, [0.1, 0.2], alpha=0.1).exists


def test_too_few_selected_is_a_warning():
    data = tether.ScoredLabels(np.arange(50) / 50, np.ones(50))
    found = tether.gcrc(data, [0.1, 0.95], alpha=0.1)
    assert not found.exists
    assert "too few items are selected" in found.warnings[0]
    assert tether.gcrc(data, [0.1, 0.5, 0.7], alpha=0.1).threshold == 0.1


def test_a_rate_among_the_selected_has_no_envelope():
    with pytest.raises(ValueError, match="needs the monotone envelope"):
        tether.monotonized_crc(tether.ScoredLabels([0.5], [1]), alpha=0.1)


@pytest.mark.parametrize("labels", [[0, 1, 1], [1, 1, 0], [1, 1, 1]])
def test_a_rate_among_the_selected_is_never_monotone(labels):
    """Not even where the observed rate rises throughout: what is controlled is another loss."""
    data = tether.ScoredLabels([0.9, 0.8, 0.7] * 20, labels * 20)
    found = tether.crc(data, alpha=0.5)
    assert not found.monotone
    assert "a rate among the selected, which falls" in found.warnings[0]
    assert found.statement.startswith("none: ")
    found = tether.gcrc(data, [0.1, 0.2], alpha=0.9)
    assert found.exists
    assert "in the long run, a share of at most 0.9 of the selected items" in found.statement
    assert "expected loss" not in found.statement
    assert "a selected item is false" in tether.ltt(data, [0.1, 0.2], alpha=0.9).statement


def test_a_bound_below_one_is_refused():
    with pytest.raises(ValueError, match="bound must be at least 1 for 'false_discovery'"):
        tether.crc(tether.ScoredLabels([0.9], [0]), alpha=0.1, bound=0.5)


@settings(max_examples=scaled(80), deadline=None)
@given(
    pairs=PAIRS,
    alpha=brute_force.ALPHAS,
    loss=st.sampled_from(["false_discovery", "false_positive", "false_negative"]),
    data=st.data(),
)
def test_weighted_rates(pairs, alpha, loss, data):
    size = len(pairs)
    weights = data.draw(st.lists(st.integers(1, 4), min_size=size, max_size=size))
    test = data.draw(st.integers(1, 4))
    scores, labels = zip(*pairs, strict=True)
    among = [
        (score, label, weight)
        for (score, label), weight in zip(pairs, weights, strict=True)
        if loss == "false_discovery" or label == (loss == "false_negative")
    ]
    if not among:
        return
    thresholds = [*sorted(set(scores)), np.inf]
    passing = []
    for t in thresholds:
        if loss == "false_discovery":
            wrong = sum(w for score, label, w in among if score >= t and not label)
            of = sum(w for score, _, w in among if score >= t)
        else:
            wrong = sum(w for score, _, w in among if (score >= t) == (loss == "false_positive"))
            of = sum(w for _, _, w in among)
        passing.append(Fraction(wrong + test, of + test) <= alpha)
    found = tether.crc(
        tether.ScoredLabels(scores, labels),
        alpha=float(alpha),
        loss=loss,
        weights=weights,
        test_weight=test,
    )
    passed = [t for t, good in zip(thresholds, passing, strict=True) if good]
    assert found.exists == bool(passed)
    if passed:
        assert found.threshold == (max(passed) if loss == "false_negative" else min(passed))


@pytest.mark.parametrize("method", [tether.gcrc, tether.crc])
def test_a_promise_for_a_rate_among_the_selected_is_refused_with_what_to_use(method):
    rng = np.random.default_rng(0)
    scores = rng.random(20_000)
    labels = tether.ScoredLabels(scores, rng.random(20_000) < scores**0.2)
    grid = np.linspace(0.3, 0.6, 31)
    with pytest.raises(ValueError, match=r"promise = 0\.1: .* states no promise for .*tether\.ltt"):
        method(labels, grid, promise=0.1, loss="false_discovery")
    assert tether.ltt(labels, grid, promise=0.1, loss="false_discovery").useful
    assert tether.gcrc(labels, grid, alpha=0.1, loss="false_discovery").exists


@pytest.mark.parametrize("method", [tether.gcrc, tether.ltt])
def test_too_few_selected_items_are_told_apart_from_a_rate_that_is_too_large(method):
    scores = np.arange(1, 1001) / 1000
    labels = tether.ScoredLabels(scores, np.arange(1000) % 2)  # half of any selection is false
    many = method(labels, [0.2, 0.5], alpha=0.1, loss="false_discovery")
    assert many.warnings[0] == "no threshold passes: the safest, 0.5, already fails"
    few = method(labels, [0.999], alpha=0.1, loss="false_discovery")
    assert "too few items are selected at the safest threshold, 2," in few.warnings[0]
