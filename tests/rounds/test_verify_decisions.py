"""Shares and calibrations are checked wherever a run is: in its store and in an export."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import tether
from tests.rounds.forged_stores import link_again
from tether.rounds import Controller
from tether.rounds.run_settings import decides_shares
from tether.rounds.store.database import Store
from tether.rounds.store.queries import read_settings
from tether.rounds.verify_decisions import find_wrong_decisions


def make_run(path, kind):
    rng = np.random.default_rng(0)
    if kind == "release":
        with tether.Release(path, {"harm": 0.3}, old={"harm": np.zeros(50)}) as release:
            for step in range(3):
                keys = [f"{step} {k}" for k in range(40)]
                release.assign(keys)
                release.observe(keys, np.zeros(40))
                release.advance()
        return
    given = {"family": "ramp", "actions_per_step": 40} if kind == "ramp" else {}
    with Controller(tether.Gaussian(0.0), store=path, alpha=0.3, **given) as run:
        for number in range(3):
            round_ = run.begin(tether.Gaussian(0.1) if number else None)
            taken = round_.act(60, rng)
            run.observe(taken.ids, (taken.actions > 1.5).astype(float))


def change_last_round(path, kind):
    """Raise the last share or beta, and compute the hash chain anew, as a forger could."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT number, calibration FROM tether_rounds ORDER BY number DESC LIMIT 1"
        number, text = connection.execute(query).fetchone()
        content = json.loads(text)
        log_beta = None
        if kind == "rounds":
            content["log_beta"] = 9.0
        else:
            content["share"]["share"] = 0.77
            log_beta = float(np.log(0.77))
        statement = "UPDATE tether_rounds SET calibration = ?, log_beta = coalesce(?, log_beta)"
        connection.execute(f"{statement} WHERE number = ?", [json.dumps(content), log_beta, number])
        connection.commit()
    link_again(path)


@pytest.mark.parametrize("kind", ["rounds", "ramp", "release"])
def test_what_a_round_decided_is_checked(tmp_path, kind):
    path = tmp_path / "run.db"
    make_run(path, kind)
    for expected in (False, True):
        store = Store(path, create=False, check=False)
        with store.reading() as connection:
            stored = read_settings(connection)
            assert decides_shares(stored) == (kind != "rounds")
            assert bool(find_wrong_decisions(connection, stored)) == expected
        store.close()
        if not expected:
            change_last_round(path, kind)
