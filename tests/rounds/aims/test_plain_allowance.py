"""What the plain policy would be allowed is shown, and decides nothing."""

import numpy as np
import pytest

from tests.rounds.aims.aimed_runs import begun, last_aim, new_run
from tether.rounds.aims import plain_allowance as module


def test_it_decides_nothing_and_its_failure_stops_nothing(monkeypatch):
    with new_run() as run:
        round_ = begun(run, 2)
        beta, aim = round_.calibration.log_beta, last_aim(run)
        assert aim.plain_log_beta is not None

    def fail(*args):
        raise RuntimeError("no memory")

    monkeypatch.setattr(module, "_rescored", fail)
    with new_run() as run:
        round_ = begun(run, 2)
        assert round_.calibration.log_beta == pytest.approx(beta, abs=0)
        assert last_aim(run).plain_log_beta is None
        assert last_aim(run).plain_beta is None
        assert last_aim(run).digest == aim.digest


def test_no_beta_of_the_plain_policy_is_zero():
    with new_run(alpha=0.05) as run:
        begun(run, 2)
        assert last_aim(run).plain_log_beta == -np.inf
        assert last_aim(run).plain_beta == 0
