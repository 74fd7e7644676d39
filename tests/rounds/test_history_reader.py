"""The history of a run is read from its store alone."""

import numpy as np
import pytest

from tests.rounds.small_runs import monitored_run
from tether.rounds import read_history


def test_history_reads_without_policies(tmp_path):
    run, round_, rng = monitored_run(tmp_path / "run.db")
    taken = round_.act(100, rng)
    run.observe(taken.ids[:40], np.zeros(40), np.arange(40.0))
    run.close()
    found = read_history(tmp_path / "run.db")
    assert [each.number for each in found.rounds] == [1, 2]
    first, second = found.rounds
    assert (first.rows, first.observed, first.pending) == (400, 400, 0)
    assert (second.rows, second.observed, second.pending) == (100, 40, 60)
    assert second.losses["loss"].mean == 0
    assert second.losses["loss"].lower == 0 < second.losses["loss"].upper < 1
    assert second.reward.mean == 19.5
    assert first.reward is None
    assert found.safe_losses["loss"].count == 400
    assert second.calibration.beta == pytest.approx(round_.beta)
    assert second.beta == pytest.approx(round_.beta)
    assert str(second.calibration) == str(round_.calibration)
