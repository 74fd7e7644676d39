"""`tether status` of a run that aims."""

import json

import numpy as np
import pytest

from tests.cli.command_line import one_line, run
from tests.rounds.aims.aimed_runs import act, begun, new_run


def test_status_shows_what_was_predicted_and_what_came_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    store = tmp_path / "run.db"
    with new_run(store) as controller:
        act(begun(controller, 2, rows=200), np.random.default_rng(1), 100)
        record = controller.history().rounds[-1]
    shown = one_line(run("status", store))
    realized = record.losses["loss"]
    assert "aim, by training rows:" in shown
    assert f"{record.aim.predicted['loss']:.4g}" in shown
    assert f"{realized.mean:.4g} ± {realized.standard_error:.2g}" in shown
    assert record.aim.why in shown
    first, second = json.loads(run("status", store, "--json").output)["rounds"]
    assert first["aim"] is None
    assert second["aim"]["candidate"] == record.aim.candidate
    assert second["aim"]["predicted"]["loss"] == pytest.approx(record.aim.predicted["loss"])
    assert second["aim"]["plain_beta"] == pytest.approx(record.aim.plain_beta)
    assert second["losses"]["loss"]["standard_error"] == pytest.approx(realized.standard_error)
    assert realized.standard_error == pytest.approx(
        np.sqrt(realized.mean * (1 - realized.mean) / realized.count), rel=0.1
    )
