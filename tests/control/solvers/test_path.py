"""The solver for paths: betas are examined in order, and the first failure ends it."""

import numpy as np

import tether
from tether.control import PolicyPath
from tether.control.solvers import path


def test_a_beta_that_passes_after_one_that_fails_is_not_chosen():
    loss = np.array([1.0] + [0.0] * 9)
    table = np.zeros((10, 3))
    table[0, 1] = 3.0  # at the second beta the loss weighs most
    log = tether.Log(
        loss, np.zeros(10), np.zeros(10), policy_path=PolicyPath("token_clip", [0, 1, 2], table)
    )
    found = tether.calibrate(log, alpha=0.2, family="token_clip", test_weight=1.0)
    assert found.log_beta == 0.0
    assert found.risk <= 0.2
    assert path.risks(found._problem, found.binding, np.array([2.0]))[0] <= 0.2
