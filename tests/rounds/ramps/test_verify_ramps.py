"""Forged ramps: what was edited is found, also by a forger who can repair the hash chain."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tether.rounds import verify_store
from tether.rounds.ramps.verify_ramps import find_wrong_ramps
from tether.rounds.store.queries import read_settings


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A safe round, a policy that reaches all actions, another beside it, a halt, and a step."""
    path = tmp_path_factory.mktemp("ramps") / "run.db"
    rng = np.random.default_rng(0)
    with tether.Controller(
        AlwaysTakes(0), alpha=0.2, store=path, family="ramp", against="last"
    ) as run:
        taken = run.begin().act(200, rng)
        run.observe(taken.ids, np.zeros(200))
        for policy in (1, 2):
            round_ = run.begin(AlwaysTakes(policy))
            for _ in range(3):
                taken = round_.act(100, rng)
                run.observe(taken.ids[5:], np.zeros(95))
                run.withdraw(taken.ids[:2], "never carried out")
                run.advance()
        run.halt("a test", actor="ann")
        round_.act(10, rng)
        run.resume("a test", actor="ann")
        round_.act(10, rng)
    return path


@pytest.fixture
def path(original, tmp_path):
    tether.rounds.backup_run(original, tmp_path / "copy.db")
    return tmp_path / "copy.db"


def changed(path, *statements):
    """What is found after an edit, apart from the hash chain, which a forger may have repaired."""
    engine = sql.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        for each, values in statements:
            assert connection.exec_driver_sql(each, values).rowcount >= 1
        found = list(find_wrong_ramps(connection, read_settings(connection)))
    engine.dispose()
    return found


def content_of(path, number):
    engine = sql.create_engine(f"sqlite:///{path}")
    query = "SELECT calibration FROM tether_rounds WHERE number = ?"
    with engine.begin() as connection:
        text = connection.exec_driver_sql(query, (number,)).scalar_one()
    engine.dispose()
    return json.loads(text)


def test_a_run_as_it_was_written_has_no_findings(path):
    assert changed(path) == []
    assert verify_store(path).ok
    assert tether.rounds.read_history(path).rounds[5].reference == 3


def test_a_share_that_was_raised_is_found(path):
    content = content_of(path, 2)
    content["share"]["share"] = 0.5
    edit = "UPDATE tether_rounds SET calibration = ?, log_beta = ? WHERE number = 2"
    (found,) = changed(path, (edit, (json.dumps(content), float(np.log(0.5)))))
    assert found.startswith("round 2: its share is 0.5 from round 0 against round 0, but the rows")
    assert not verify_store(path).ok


def test_a_loss_that_was_changed_is_found(path):
    edit = (
        "UPDATE tether_observations SET loss = 1 WHERE loss = 0 AND action IN "
        "(SELECT id FROM tether_actions WHERE round = 2 AND served = 2)"
    )
    assert changed(path, (edit, ()))[0].startswith("round 3: its share is 1.0 from round 2")


def test_a_reference_that_was_changed_is_found(path):
    edit = "UPDATE tether_rounds SET reference = 0 WHERE number = 6"
    found = changed(path, (edit, ()))
    assert "against round 0, but the rows that it saw give" in found[0]
    assert any("answered by the policy of round 3, which has no share in it" in x for x in found)
