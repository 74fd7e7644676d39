import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement

from tests.bo.gaussian_process import fitted
from tether.bo import acquisition_values


def test_botorch_is_evaluated_at_single_points():
    acquisition = LogExpectedImprovement(fitted(), best_f=0.5)
    points = np.random.default_rng(0).random((5000, 2))  # several calls
    values = acquisition_values(acquisition, points)
    single_calls = [
        float(acquisition(torch.tensor(points[[k]])).detach()) for k in (0, 2047, 2048, 4999)
    ]
    assert np.allclose(values[[0, 2047, 2048, 4999]], single_calls)


def test_invalid_values_are_refused():
    points = np.zeros((3, 1))
    with pytest.raises(ValueError, match=r"values\[1\] is nan"):
        acquisition_values(lambda rows: np.array([0.0, np.nan, 0.0]), points)
    with pytest.raises(ValueError, match="below \\+inf"):
        acquisition_values(lambda rows: np.array([0.0, np.inf, 0.0]), points)
    with pytest.raises(ValueError, match=r"shape \(3, 1\) for 3 point"):
        acquisition_values(lambda rows: rows, points)
    with pytest.raises(TypeError, match="acquisition must be a function"):
        acquisition_values("EI", points)
    with pytest.raises(ValueError, match=r"points\[\(0, 0\)\] is inf"):
        acquisition_values(lambda rows: rows[:, 0], [[np.inf]])
