"""The existence term: data on which nothing passes are paid for, in worlds where that is common."""

import math

import numpy as np
import pytest

import tether
from tests.scale import scaled
from tether._core.safe_excess import SafeMean

ALPHA = 0.12
GRID = np.linspace(0, 1, 41)  # bolder thresholds add up to 0.4 to the risk of the safest


def _simulate(n_items, repeats, method, safest_risk=ALPHA):
    """The true risk that is served on each of many data sets, and the promises that are stated."""
    rng = np.random.default_rng(n_items)
    risks = safest_risk + 0.4 * (1 - GRID)  # the safest threshold is the last
    served, stated, exists = [], [], []
    for _ in range(repeats):
        losses = (rng.random((n_items, 1)) < risks).astype(float)
        found = method(losses, GRID, alpha=ALPHA)
        served.append(risks[np.searchsorted(GRID, found.threshold)])
        exists.append(found.exists)
        if found.exists:  # otherwise nothing is stated
            stated.append(found.promise)
    return np.array(served), np.array(stated), np.array(exists)


@pytest.mark.parametrize("method", [tether.gcrc, tether.crc, tether.monotonized_crc])
@pytest.mark.parametrize(("n_items", "formula"), [(30, 0.143), (150, 0.131), (600, 0.125)])
def test_the_promise_holds_where_the_safest_threshold_costs_exactly_alpha(n_items, formula, method):
    served, stated, exists = _simulate(n_items, scaled(600), method)
    error = 3 * served.std() / math.sqrt(len(served))
    assert served.mean() > ALPHA + error  # alpha alone is not what is served
    assert served.mean() <= stated.mean() + error
    assert served.mean() <= formula + error  # α + E[(m − α)₊], by the design
    assert stated.mean() <= ALPHA + 2.4 * (formula - ALPHA)
    assert 0.2 < exists.mean() < 0.8


@pytest.mark.parametrize("term", [lambda self, alpha: 0.0, SafeMean.excess])
def test_without_the_term_or_with_that_of_all_data_the_same_measurement_fails(monkeypatch, term):
    """Data on which something passes look better than they are, and carry what the others add."""
    monkeypatch.setattr(SafeMean, "excess_where_passing", term)
    served, stated, _ = _simulate(150, 1500, tether.gcrc)
    assert served.mean() > stated.mean() + 3 * served.std() / math.sqrt(len(served))


def test_clear_of_alpha_the_term_vanishes_and_nothing_is_warned_about():
    losses = np.zeros((1000, 3))
    losses[:20] = 1
    found = tether.gcrc(losses, alpha=0.1)
    assert found.safe_loss == pytest.approx(0.02)
    assert found.existence_term < 1e-12
    assert found.warnings == ()
    assert "expected loss ≤ 0.1, for" in found.statement


def test_close_to_alpha_the_term_is_stated_and_a_warning_names_the_mean_loss():
    losses = np.zeros((1000, 3))
    losses[:93] = 1
    found = tether.gcrc(losses, alpha=0.1)
    assert found.exists
    assert 0.001 < found.existence_term < 0.01
    assert found.promise == pytest.approx(0.1 + found.existence_term)
    assert "for data on which nothing passes" in found.statement
    assert "the safest threshold's own mean loss, 0.093 ± 0.0092, is close to" in found.warnings[0]
    assert found.to_dict()["existence_term"] == found.existence_term


def test_a_threshold_that_keeps_nothing_costs_nothing():
    """The safest threshold is then known to be harmless, however few the items."""
    claims = tether.Claims(np.arange(30) / 30, np.ones(30), range(31))
    for loss in ("fdr", "any_false", "miss"):
        found = tether.gcrc(claims, alpha=0.05, loss=loss)
        assert found.existence_term == 0
        assert math.isnan(found.safe_loss)
    labels = tether.ScoredLabels(np.arange(60) / 60, np.arange(60) % 2)
    assert tether.crc(labels, alpha=0.05, loss="false_negative").existence_term == 0
    assert tether.crc(labels, [0.2, np.inf], alpha=0.05, loss="false_positive").existence_term == 0
    kept = tether.gcrc(claims, [0.2, 0.5], alpha=0.05)  # the safest given one keeps claims
    assert kept.existence_term > 0
    same = tether.gcrc(claims, alpha=0.05, loss=lambda supported, kept: 0.0)
    assert same.existence_term > 0  # nothing is known about a function


def test_weighted_items_and_streams_have_a_term_too():
    losses = np.zeros((200, 3))
    losses[:18] = 1
    plain = tether.gcrc(losses, alpha=0.12)
    stream = tether.gcrc(iter([losses]), alpha=0.12)
    weighted = tether.gcrc(losses, alpha=0.12, weights=np.full(200, 7.0))
    assert stream.existence_term == pytest.approx(plain.existence_term)
    assert weighted.existence_term == pytest.approx(plain.existence_term)
    uneven = tether.gcrc(losses, alpha=0.12, weights=np.arange(200) % 10 == 0)
    assert uneven.existence_term > plain.existence_term


def test_where_nothing_passes_the_safest_is_described_and_nothing_is_promised():
    found = tether.gcrc(np.full((200, 3), 0.5), alpha=0.1)
    assert not found.exists
    assert not found.useful
    assert found.promise == found.bound
    assert "the mean loss of the safest is 0.5" in found.statement
    assert found.existence_term == pytest.approx(0.4, abs=0.01)
