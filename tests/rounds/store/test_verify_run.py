"""Whatever is changed in a store behind tether's back is found, and named."""

from __future__ import annotations

import shutil
import sqlite3

import numpy as np
import pytest

import tether
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller, TamperedError
from tether.rounds.store.database import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run with everything in it: rounds, rows, alarms, withdrawals, an audit trail."""
    world, rng = World("marginal"), np.random.default_rng(0)
    path = tmp_path_factory.mktemp("store") / "run.db"
    with Controller(world.safe(), alpha=0.3, alarm_risk=0.5, store=path) as run:
        for number in (1, 2, 3):
            round_, _ = one_round(run, world, number, 60, rng)
            taken = round_.act(10, rng, key=f"key {number}")
            run.withdraw(taken.ids, "never carried out", actor="Ada")
        run.halt("a drill", actor="Ada")
        run.resume("it is over", actor="Bob")
        run.halt("another", actor="Ada")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE").fetchall()
    connection.close()
    return path


def forge(original, tmp_path, *statements):
    """A copy of the store in which somebody changed something."""
    path = tmp_path / "forged.db"
    shutil.copy(original, path)
    connection = sqlite3.connect(path)
    changed = 0
    for statement, *parameters in statements:
        changed += connection.execute(statement, parameters).rowcount
    connection.commit()
    connection.close()
    return path, changed


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tether_rounds SET log_beta = 6 WHERE number = 3",
        "UPDATE tether_rounds SET calibration = replace(calibration, 'log_beta', 'log_beta ')",
        "UPDATE tether_settings SET value = replace(value, '0.3', '0.9') WHERE name = 'limits'",
        "DELETE FROM tether_alarms",
        "UPDATE tether_observations SET loss = 0",
    ],
)
def test_opening_a_forged_store_is_refused(store, statement, tmp_path):
    path, _ = forge(store, tmp_path, (statement,))
    with pytest.raises(TamperedError):
        Store(path, create=False)
    with pytest.raises(TamperedError):
        Controller(tether.Gaussian(0.0), alpha=0.3, alarm_risk=0.5, store=path)
