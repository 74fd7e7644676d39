"""Complete runs that aim: alpha holds whatever the loss model says, and a right one earns more.

`benchmarks.aim_rounds` is the long version, and has more arms.
"""

import numpy as np
import pytest
from benchmarks.aim_rounds import ALPHA, Clinic, arms, mean_and_error, run_arm

from tests.scale import scaled

WORLD = Clinic()
ARMS = {arm.name: arm for arm in arms(WORLD)}


RUNS = {"true": 5, "inverted": 5, "by heart, peeking (wrong)": 8}


@pytest.fixture(scope="module")
def runs():
    """Runs × rounds × (risk, reward) of each arm."""
    return {
        name: np.stack([run_arm(WORLD, ARMS[name], seed) for seed in range(scaled(count))])
        for name, count in RUNS.items()
    }


@pytest.mark.parametrize("name", ["true", "inverted"])
def test_every_round_holds_alpha(runs, name):
    risk, error = mean_and_error(runs[name][:, :, 0])
    assert (risk <= ALPHA + 3 * error).all(), (risk, error)


def test_a_loss_model_that_knows_calibration_rows_by_heart_is_seen_to_break_alpha(runs):
    risk, error = mean_and_error(runs["by heart, peeking (wrong)"][:, :, 0])
    assert risk[-1] > ALPHA + 3 * error[-1], (risk, error)


def test_the_right_loss_model_earns_more_than_the_inverted_one(runs):
    lead = (runs["true"] - runs["inverted"])[:, -1, 1]
    mean, error = mean_and_error(lead)
    assert mean > 0.3
    assert mean > 3 * error
