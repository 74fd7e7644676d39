"""Forged releases: what was edited is found, also by a forger who can repair the hash chain."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tether.release import ArmCounts
from tether.rounds import verify_store
from tether.rounds.releases.verify_steps import find_wrong_steps
from tether.rounds.store.queries import read_settings

KEYS = [f"key {k}" for k in range(600)]


@pytest.fixture
def path(tmp_path):
    """A release of three steps, with a halt in the second and a key that moved."""
    made = tmp_path / "release.db"
    guardrails = {"complaint": 0.1, "delay": (0.5, 2.0)}
    log = {"complaint": ArmCounts(500, 10.0), "delay": ArmCounts(500, 20.0)}
    with tether.Release(made, guardrails, old=log, salt=b"s") as release:
        for begin in (0, 300):
            keys = KEYS[: begin + 300]
            release.assign(keys)
            fresh = keys[begin:]
            release.observe(fresh, {"complaint": [0.2] * 300, "delay": [0.1] * 300})
            release.advance()
        release.assign(KEYS)
        release.halt("a test", actor="ann")
        release.assign("while halted")
        release.resume("a test", actor="ann")
        release.assign("another")
    return made


def edit(path, *statements):
    engine = sql.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP INDEX tether_keys")
        for each in statements:
            assert connection.exec_driver_sql(each).rowcount == 1
    engine.dispose()


def find(path):
    """What is found apart from the hash chain, which a forger might have repaired."""
    engine = sql.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        found = list(find_wrong_steps(connection, read_settings(connection)))
    engine.dispose()
    return found


def test_a_share_that_was_raised_is_found(path):
    engine = sql.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        text = connection.exec_driver_sql(
            "SELECT calibration FROM tether_rounds WHERE number = 2"
        ).scalar()
        content = json.loads(text)
        content["share"]["share"] = 0.9
        connection.exec_driver_sql(
            "UPDATE tether_rounds SET calibration = ?, log_beta = ? WHERE number = 2",
            (json.dumps(content), float(np.log(0.9))),
        )
    engine.dispose()
    assert "step 2: its share is 0.9" in find(path)[0]
    assert not verify_store(path).ok
    with pytest.raises(tether.rounds.TamperedError):
        tether.Release(path)


def test_a_loss_that_was_lowered_is_found(path):
    edit(
        path,
        "UPDATE tether_observations SET loss = 1.0 WHERE number = "
        "(SELECT MAX(o.number) FROM tether_observations o JOIN tether_actions a "
        "ON a.id = o.action WHERE a.round = 2 AND a.served = 2 AND o.which = 0)",
    )
    assert "step 3" in find(path)[0]
    assert not verify_store(path).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tether_actions SET served = 0, action = x'6f6c64' WHERE id = "
        "(SELECT MIN(id) FROM tether_actions WHERE served = 2)",
        "UPDATE tether_actions SET served = 2, action = x'6e6577' WHERE id = "
        "(SELECT MIN(id) FROM tether_actions WHERE served = 0 AND round = 2)",
        "UPDATE tether_actions SET action = x'6e6577' WHERE id = "
        "(SELECT MIN(id) FROM tether_actions WHERE served = 0 AND round = 1)",
        "UPDATE tether_actions SET served = 77 WHERE id = "
        "(SELECT MIN(id) FROM tether_actions WHERE served = 0 AND round = 3)",
    ],
)
def test_an_assignment_that_was_moved_is_found(path, statement):
    edit(path, statement)
    assert any("which its hash and the share" in each for each in find(path))
    assert not verify_store(path).ok
