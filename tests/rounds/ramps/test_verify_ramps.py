"""Forged ramps: what was edited is found, also by a forger who can repair the hash chain."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tether.rounds import export_run, import_run, verify_store
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


def test_a_run_that_was_exported_and_imported_has_none_either(path, tmp_path):
    export_run(path, tmp_path / "run.parquet")
    import_run(tmp_path / "run.parquet", tmp_path / "again.db")
    assert verify_store(tmp_path / "again.db").ok


def test_a_share_that_was_raised_is_found(path):
    content = content_of(path, 2)
    content["share"]["share"] = 0.5
    edit = "UPDATE tether_rounds SET calibration = ?, log_beta = ? WHERE number = 2"
    (found,) = changed(path, (edit, (json.dumps(content), float(np.log(0.5)))))
    assert found.startswith("round 2: its share is 0.5 from round 0 against round 0, but the rows")
    assert not verify_store(path).ok


@pytest.mark.parametrize("name", ["stability", "existence", "old_bound", "new_bound", "alpha"])
def test_a_promise_that_was_improved_is_found(path, name):
    content = content_of(path, 2)
    (guardrail,) = content["share"]["guardrails"].values()
    guardrail[name] = guardrail[name] / 2 + 0.01
    edit = "UPDATE tether_rounds SET calibration = ? WHERE number = 2"
    (found,) = changed(path, (edit, (json.dumps(content),)))
    assert found.startswith("round 2: its share is stored with other counts, bounds or promises")
    assert not verify_store(path).ok


def test_a_reason_that_the_numbers_do_not_give_is_found(tmp_path):
    path = tmp_path / "run.db"
    with tether.Controller(AlwaysTakes(0), alpha=0.2, store=path, family="ramp") as run:
        run.begin().act(2, np.random.default_rng(0))
        assert "; the safe policy serves" in run.begin(AlwaysTakes(1)).note
    assert changed(path) == []
    content = content_of(path, 2)
    content["share"]["reason"] = "a person said so"
    edit = "UPDATE tether_rounds SET calibration = ?, note = ? WHERE number = 2"
    (found,) = changed(path, (edit, (json.dumps(content), "a person said so")))
    assert found.startswith("round 2: its reason is 'a person said so', but its numbers say 'the r")


def test_a_fingerprint_that_changes_within_a_ramp_is_found(path):
    edit = "UPDATE tether_rounds SET fingerprint = 'another' WHERE number = 3"
    found = changed(path, (edit, ()))
    assert found[0] == "round 3 continues a ramp that the round before is no part of"


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


def test_a_ramp_that_does_not_continue_the_round_before_is_found(path):
    content = content_of(path, 3) | {"first": 1}
    edit = "UPDATE tether_rounds SET calibration = ? WHERE number = 3"
    found = changed(path, (edit, (json.dumps(content),)))
    assert "round 3 continues a ramp that the round before is no part of" in found


def test_a_policy_without_a_share_is_found(path):
    edit = "UPDATE tether_rounds SET policy = 'x' WHERE number = 1"
    assert changed(path, (edit, ())) == ["round 1 must have both a policy and a share, or neither"]


def test_an_answer_of_a_policy_without_a_share_is_found(path):
    edit = "UPDATE tether_actions SET served = 1 WHERE round = 1 AND calibration = 0"
    found = changed(path, (edit, ()))
    assert len(found) == 1
    assert "actions of round 1 were answered by the policy of round 1" in found[0]
