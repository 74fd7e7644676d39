"""The result of a calibration: what it rests on, computed by hand."""

import numpy as np
import pytest

import tether
from tests.control import direct_formulas
from tests.control.example_logs import calibrated


def test_diagnostics_by_hand():
    found, made = calibrated()
    weight = direct_formulas.weights(
        direct_formulas.clip_kernel, made["safe"], made["optimized"], made["safe"], found.log_beta
    )
    last = direct_formulas.weights(
        direct_formulas.clip_kernel,
        made["draw_safe"],
        made["draw_optimized"],
        made["draw_safe"],
        found.log_beta,
    ).max()
    assert found.effective_sample_size == pytest.approx(
        float(weight.sum() ** 2 / (weight**2).sum())
    )
    assert found.max_weight == pytest.approx(float(last / (weight.sum() + last)))
    ratio = np.exp(made["draw_optimized"] - made["draw_safe"])
    psi = np.minimum(found.beta / ratio, 1).mean()
    assert found.acceptance == pytest.approx(psi / min(found.beta, 1))
    top = (made["draw_optimized"] - made["draw_safe"]).max()
    assert found.rows_beyond_draws == (made["optimized"] - made["safe"] > top).sum()
    assert found.warnings == ()


def test_relative_weights_by_hand():
    found, made = calibrated()
    weight = direct_formulas.weights(
        direct_formulas.clip_kernel, made["safe"], made["optimized"], made["safe"], found.log_beta
    )
    weight = np.sort((weight / weight.mean()).astype(float).ravel())
    place = np.linspace(0, 1, 101) * (len(weight) - 1)  # between which two rows a quantile lies
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, len(weight) - 1)
    expected = weight[below] + (place - below) * (weight[above] - weight[below])
    assert len(found.relative_weights) == 101
    assert found.relative_weights == pytest.approx(expected)
    assert found.relative_weights[-1] > 1 > found.relative_weights[0]


def test_relative_weights_at_the_ends():
    safe_only, _ = calibrated(alpha=0.01)
    assert safe_only.relative_weights == pytest.approx(np.ones(101))  # all rows count the same
    far = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.full(50, 900.0))
    none = tether.calibrate(far, tether.Proposals([0.0], [0.0], log_mix=[-900.0]), alpha=0.1)
    assert none.relative_weights == (0.0,) * 101  # the test point is e^1800 times heavier


def test_results_are_frozen():
    found, _ = calibrated()
    with pytest.raises(AttributeError):
        found.log_beta = 3.0
    with pytest.raises(ValueError, match="read-only"):
        found.curve().risk[0] = 0.0
