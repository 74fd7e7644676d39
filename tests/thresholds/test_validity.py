"""Promises in expectation, measured where they are hardest; each with a variant that must fail."""

import math

import numpy as np
import pytest

import tether
from tests.scale import scaled
from tether._core.promises import SafeMean
from tether.thresholds import crc, monotonized_crc

ALPHA = 0.12
GRID = np.linspace(0, 1, 41)  # bolder thresholds add up to 0.4 to the risk of the safest


def served_and_stated(n_items, repeats, method):
    rng = np.random.default_rng(n_items)
    risks = ALPHA + 0.4 * (1 - GRID)  # the safest threshold, the last, costs exactly alpha
    served, stated = [], []
    for _ in range(repeats):
        losses = (rng.random((n_items, 1)) < risks).astype(float)
        found = method(losses, GRID, alpha=ALPHA)
        served.append(risks[np.searchsorted(GRID, found.threshold)])
        if found.exists:  # otherwise nothing is stated
            stated.append(found.promise)
    return np.array(served), np.array(stated)


@pytest.mark.parametrize("method", [tether.gcrc, crc, monotonized_crc])
@pytest.mark.parametrize(("n_items", "formula"), [(30, 0.143), (150, 0.131)])
def test_data_on_which_nothing_passes_are_paid_for(n_items, formula, method):
    served, stated = served_and_stated(n_items, scaled(400), method)
    error = 3 * served.std() / math.sqrt(len(served))
    assert served.mean() > ALPHA + error / 3  # alpha alone is not what is served
    assert served.mean() <= stated.mean() + error
    assert served.mean() <= formula + error  # α + E[(m − α)₊]
    assert stated.mean() <= ALPHA + 2.4 * (formula - ALPHA)


def test_without_the_existence_term_the_same_measurement_fails(monkeypatch):
    monkeypatch.setattr(SafeMean, "excess_where_passing", SafeMean.excess)
    served, stated = served_and_stated(150, 1500, tether.gcrc)
    assert served.mean() > stated.mean() + 3 * served.std() / math.sqrt(len(served))


def test_weights_without_a_bound_promise_nothing():
    losses = np.repeat([[0.8], [0.1]], [20, 130], axis=0) * (1 - GRID)
    seen = tether.gcrc(losses, GRID, alpha=0.2, weights=np.repeat([3.0, 0.7], [20, 130]))
    assert seen.exists
    assert seen.promise == seen.bound  # the largest weight seen bounds nothing
    assert "test_weight" in seen.statement
    claims = tether.Claims([0.9, 0.8] * 50, [1, 0] * 50, np.arange(0, 101, 2))
    known = {"alpha": 0.6, "weights": np.ones(50), "test_weight": 1.0}  # the losses can fall
    both = tether.gcrc(claims, loss=["fdr", "any_false"], **known)
    assert both.by_loss[0].promise == tether.gcrc(claims, **known).promise == 1


def test_crc_promises_nothing_for_a_loss_that_merely_looks_monotone():
    claims = tether.Claims([0.9, 0.8] * 50, [1, 0] * 50, np.arange(0, 101, 2))  # none falls
    found = crc(claims, alpha=0.2)
    assert (found.n_nonmonotone, found.monotone, found.useful) == (0, False, False)
    assert "none" in found.statement
    false = tether.Claims(np.arange(50) / 50, np.zeros(50), np.arange(51))
    found = crc(false, GRID, alpha=0.3, loss=tether.FalseAmongShown(0.3, 1))  # a true one falls
    assert (found.n_nonmonotone, found.monotone) == (0, False)
    single = tether.Claims(np.arange(50) / 50, np.arange(50) > 10, np.arange(51))
    assert crc(single, alpha=0.2).useful  # one claim per item: nothing to fall
