"""Diagnostics of a calibration: its curve, its smoothness, and rows that no draw covers."""

import numpy as np
import pytest

import tether
from tests.control import direct_formulas
from tests.control.example_logs import calibrated, finite_world


def test_curve_is_the_risk():
    found, made = calibrated()
    curve = found.curve(points=100)
    assert len(curve.beta) <= 101
    assert np.all(np.diff(curve.log_beta) > 0)
    assert curve.risk == pytest.approx(direct_formulas.risk(made, curve.log_beta).astype(float))
    assert found.log_beta in curve.log_beta
    with pytest.raises(ValueError, match=r"constraint must be one of \['loss'\], got 'harm'"):
        found.curve("harm")


def test_budgeted_family_uses_its_measured_smoothness():
    log, *_ = finite_world(np.random.default_rng(36), rows=150)
    found = tether.calibrate(log, alpha=0.25, family="budgeted_clip(3)")
    assert found.smoothness > 1
    assert found.alpha <= found.promise <= found.bound


def test_a_row_with_the_largest_ratio_of_the_draws_is_covered():
    log = tether.Log(np.zeros(4), np.zeros(4), [0.5, 1.0, 1.5, -np.inf])
    found = tether.calibrate(log, tether.Proposals(np.zeros(2), [0.0, 1.0]), alpha=0.5)
    assert found.rows_beyond_draws == 1
    assert tether.calibrate(log, alpha=0.5).rows_beyond_draws == 0  # no draws were given
