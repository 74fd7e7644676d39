"""Inverted labels or scores are told, and others are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether.risk.score_direction import (
    area_with_error,
    inverted_warning,
    measured_area,
    uninformative_note,
)

METHODS = [tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt]


def claims_of(seed=0, items=300, sign=1):
    rng = np.random.default_rng(seed)
    scores = rng.random(4 * items)
    labels = rng.random(4 * items) < 0.3 + 0.6 * scores
    return tether.Claims(sign * scores, labels, np.arange(0, 4 * items + 1, 4))


def inverted(losses):
    return inverted_warning(losses, measured_area(losses))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30))
def test_the_area_is_the_share_of_pairs_in_order(pairs):
    scores = np.array([score for score, _ in pairs], dtype=float)
    labels = np.array([label for _, label in pairs])
    if labels.all() or not labels.any():
        return
    area, error = area_with_error(scores, labels, np.arange(len(scores)))
    wins = [
        (high > low) + 0.5 * (high == low) for high in scores[labels] for low in scores[~labels]
    ]
    assert area == pytest.approx(np.mean(wins))
    assert error >= 0


def test_the_error_is_that_of_repeated_data_with_items_as_clusters():
    rng = np.random.default_rng(0)
    areas, errors = [], []
    for _ in range(300):
        shift = np.repeat(rng.normal(size=60), 5)  # claims of an item go together
        labels = rng.random(300) < 0.5
        scores = shift + 0.3 * labels + 0.3 * rng.normal(size=300)
        area, error = area_with_error(scores, labels, np.repeat(np.arange(60), 5))
        areas.append(area)
        errors.append(error)
    assert np.mean(errors) == pytest.approx(np.std(areas), rel=0.15)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_tells_inverted_scores(method):
    more = {"confidence": 0.9} if method is tether.ltt else {}
    with pytest.warns(tether.AssumptionWarning, match="are labels or scores inverted"):
        found = method(claims_of(sign=-1), alpha=0.3, loss="any_false", **more)
    assert any("are labels or scores inverted" in each for each in found.warnings)
    right = method(claims_of(), alpha=0.3, loss="any_false", **more)
    assert not any("inverted" in each for each in right.warnings)


def test_inverted_labels_and_labels_of_single_items_are_told():
    claims = claims_of()
    turned = tether.Claims(claims.scores, ~claims.supported, claims.offsets)
    with pytest.warns(tether.AssumptionWarning, match="1 is supported"):
        tether.gcrc(turned, alpha=0.3)
    labels = tether.ScoredLabels(turned.scores, turned.supported)
    with pytest.warns(tether.AssumptionWarning, match="1 is a positive label"):
        tether.crc(labels, alpha=0.3, loss="false_positive")


@pytest.mark.parametrize("label", [True, False])
def test_labels_of_one_kind_are_told(label):
    claims = claims_of()
    same = tether.Claims(claims.scores, np.full(1200, label), claims.offsets)
    with pytest.warns(tether.AssumptionWarning, match=f"1,200 are {label:d}"):
        found = tether.gcrc(same, alpha=0.3)
    assert found.warnings[0].startswith("are these the labels?")
    labels = tether.ScoredLabels(same.scores, same.supported)
    with pytest.warns(tether.AssumptionWarning, match="check the spelling"):
        tether.crc(labels, alpha=0.3, loss="false_negative" if label else "false_positive")
    tether.gcrc(tether.Claims([0.5, 0.6], [label, label], [0, 1, 2]), alpha=0.4)  # few


def test_scores_without_information_have_a_line_in_the_summary():
    rng = np.random.default_rng(0)
    labels = rng.random(4000) < 0.8
    claims = tether.Claims(np.arange(4000.0), labels, np.arange(0, 4001, 4))
    found = tether.gcrc(claims, alpha=0.3)  # no Python warning, which would be an error
    assert any(each.startswith("the scores hardly tell") for each in found.warnings)
    told = [uninformative_note(measured_area(claims_of(seed))) for seed in range(20)]
    assert told == [None] * 20
    assert uninformative_note((0.51, 0.01)) is not None
    assert uninformative_note((0.52, 0.05)) is None  # it may be more than 0.6
    assert uninformative_note((0.53, 0.01)) is None


def test_useless_scores_and_few_claims_are_not_told():
    for seed in range(100):
        rng = np.random.default_rng(seed)
        useless = tether.Claims(
            rng.random(600), rng.random(600) < rng.random(), np.arange(0, 601, 6)
        )
        assert inverted(useless) is None
    assert inverted(claims_of(items=8, sign=-1)) is None
    assert inverted(np.zeros((4, 3))) is None


def test_of_many_claims_some_items_are_compared():
    assert "inverted" in inverted(claims_of(items=60_000, sign=-1))
    assert inverted(claims_of(items=60_000)) is None


def test_labels_that_are_passed_as_scores_are_told():
    labels = np.random.default_rng(0).random(400) < 0.5
    claims = tether.Claims(labels.astype(float), labels, np.arange(0, 401, 4))
    with pytest.warns(tether.AssumptionWarning, match="the scores are the labels themselves"):
        found = tether.gcrc(claims, alpha=0.2)
    assert "labels themselves" in found.warnings[0]
