"""The calibrated risk along beta."""

import numpy as np
import pytest

from tests.control import direct_formulas
from tests.control.example_logs import calibrated


def test_curve_is_the_risk():
    found, made = calibrated()
    curve = found.curve(points=100)
    assert len(curve.beta) <= 101
    assert np.all(np.diff(curve.log_beta) > 0)
    assert curve.risk == pytest.approx(direct_formulas.risk(made, curve.log_beta).astype(float))
    assert found.log_beta in curve.log_beta
    with pytest.raises(ValueError, match=r"constraint must be one of \['loss'\], got 'harm'"):
        found.curve("harm")
