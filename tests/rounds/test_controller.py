"""The controller checks its arguments before anything is stored."""

import numpy as np
import pytest

import tether
from tether.rounds import Controller


def test_arguments_are_checked():
    safe = tether.Gaussian(0.0)
    for options, words in [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 2.0}, "alpha must be above 0 and below 1"),
        ({"alpha": 0.1, "calibration_share": 0}, "calibration_share must be above 0"),
        ({"alpha": 0.1, "missing": "drop"}, "missing must be one of 'wait'"),
        ({"alpha": 0.1, "against": "best"}, "against must be one of 'safe'"),
        ({"alpha": 0.1, "alarm_risk": 0.05}, "alarm_risk must be at least alpha = 0.1, got 0.05"),
        (
            {"alpha": 0.1, "min_observed_share": 1.5},
            "min_observed_share must be above 0 and at most 1",
        ),
        ({"alpha": 0.1, "family": "clop"}, "family"),
    ]:
        with pytest.raises(ValueError, match=words):
            Controller(safe, store="sqlite://", **options)
    with pytest.raises(ValueError, match="store must be SQLite or PostgreSQL"):
        Controller(safe, alpha=0.1, store="mysql://somewhere/db")
    run = Controller(safe, alpha=0.1, store="sqlite://")
    with pytest.raises(TypeError, match="optimized must be a policy"):
        run.begin(3.0)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        run.begin().act(3, 0)
    with pytest.raises(ValueError, match="contexts must be at least 1"):
        run.round.act(0, np.random.default_rng(0))
    assert tether.Controller is Controller
    assert repr(run) == "Controller(alpha=0.1, store='sqlite://')"
    assert run.round.number == 1
    assert len(run.training_rows()) == len(run.pending()) == 0
