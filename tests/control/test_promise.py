"""The promise: how much beta moves without a row, and what follows for the expected loss."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import (
    gaussian_columns,
    leave_one_out,
    log_and_proposals,
)
from tether._core.safe_excess import SafeMean
from tether.control.constraint import Constraint
from tether.control.promise import make_promise


def test_promise_follows_from_stability():
    rng = np.random.default_rng(34)
    made = gaussian_columns(rng, 400, 100)
    found = tether.calibrate(*log_and_proposals(made, False), alpha=0.1)
    assert 0 < found.stability < 0.1
    terms = found.promise_terms["loss"]
    assert terms.stability == pytest.approx(0.9 * found.stability)
    added = terms.stability + terms.safe_excess + terms.unforeseen
    assert found.promise == pytest.approx(0.1 + added)
    share, _ = found._problem.shares(found.log_beta)
    betas = np.exp(leave_one_out(found))
    slow = sum(
        s * (max(found.beta / b, b / found.beta) - 1) for s, b in zip(share, betas, strict=True)
    )
    assert found.stability == pytest.approx(slow)


def test_stability_shrinks_with_more_rows():
    rng = np.random.default_rng(35)
    sizes = (100, 1000, 10_000)
    found = [
        tether.calibrate(*log_and_proposals(gaussian_columns(rng, rows, 50), False), alpha=0.12)
        for rows in sizes
    ]
    stabilities = [each.stability for each in found]
    assert stabilities[0] > stabilities[1] > stabilities[2]


def test_the_terms_of_the_promise():
    """α + max(α, B − α)·ε + E[(m − α)₊], at most B."""
    low, high = Constraint("loss", 0.1, 1.0), Constraint("loss", 1.5, 2.0)
    clear, near = SafeMean(0.01, 0.001), SafeMean(1.5, 0.1)
    assert make_promise(low, 0.2, clear).total == pytest.approx(0.1 + 0.9 * 0.2)
    promise = make_promise(high, 0.2, near)
    assert promise.stability == pytest.approx(1.5 * 0.2)
    assert promise.safe_excess == pytest.approx(SafeMean(1.65, 0.1).excess(1.5))
    assert promise.total == pytest.approx(1.8 + promise.safe_excess)
    assert make_promise(high, 9.0, near).total == 2.0
    unforeseen = make_promise(low, 0.2, clear, 0.9 / 33)
    assert unforeseen.total == pytest.approx(0.1 + 0.9 * 0.2 + 0.9 / 33)


def test_all_terms_are_stated():
    """A safe policy whose mean loss is alpha: in the promise, the summary, the JSON, a warning."""
    rng = np.random.default_rng(37)
    loss = (np.arange(300) % 10 == 0).astype(float)
    log_safe = rng.normal(size=300)
    log = tether.Log(loss, log_safe, log_safe + 0.3 * rng.normal(size=300))
    found = tether.calibrate(log, tether.Proposals([0.0, 0.0], [0.2, 0.4]), alpha=0.11)
    terms = found.promise_terms["loss"]
    assert terms.safe_excess > 0.002
    added = terms.stability + terms.safe_excess + terms.unforeseen
    assert found.promise == pytest.approx(terms.alpha + added)
    assert "safe excess" in found.summary()
    assert any("close to alpha" in warning for warning in found.warnings)
    saved = found.to_dict()["promise_terms"]["loss"]
    assert saved["safe_excess"] == terms.safe_excess
    loaded = tether.Calibration.from_dict(found.to_dict())
    assert (loaded.promise, loaded.stability) == (found.promise, found.stability)
    calm = tether.calibrate(tether.Log(loss * 0, log_safe, log_safe), alpha=0.11)
    assert calm.promise_terms["loss"].safe_excess < 1e-6
    assert not any("close to alpha" in warning for warning in calm.warnings)
