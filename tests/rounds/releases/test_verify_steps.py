"""Forged releases: what was edited is found, also by a forger who can repair the hash chain."""

from __future__ import annotations

import json
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sql

import tether
from tether.release import ArmCounts
from tether.rounds import export_run, import_run, verify_export, verify_store
from tether.rounds.releases import step as step_module
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


def test_a_release_as_it_was_written_has_no_findings(path):
    assert find(path) == []
    verification = verify_store(path)
    assert verification.ok
    assert "their shares and systems follow from the rows" in str(verification)


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


def of_share(content):
    return content["share"]


def change_step(path, change, at=lambda content: content["share"]["guardrails"]["complaint"]):
    """Change what step 2 was stored with, apart from its share."""
    engine = sql.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        text = connection.exec_driver_sql(
            "SELECT calibration FROM tether_rounds WHERE number = 2"
        ).scalar()
        content = json.loads(text)
        change(at(content))
        connection.exec_driver_sql(
            "UPDATE tether_rounds SET calibration = ?, note = ? WHERE number = 2",
            (json.dumps(content), content["share"]["reason"]),
        )
    engine.dispose()


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each.update(stability=0.0),
        lambda each: each.update(existence=0.5),
        lambda each: each.update(old_bound=0.001),
        lambda each: each.update(alpha=0.05),
        lambda each: each["new"].update(rows=10_000),
        lambda each: each["old"].update(total=0.0),
        lambda each: each["guardrail"].update(alpha=0.01),
    ],
)
def test_a_promise_that_was_improved_is_found(path, change):
    change_step(path, change)
    assert "step 2: its share is stored with other counts" in find(path)[0]
    assert not verify_store(path).ok


@pytest.mark.parametrize("name", ["window", "window_from", "ramp", "cleared"])
def test_another_window_or_ramp_is_found(path, name):
    change_step(path, lambda step: step.update({name: step[name] + 1}), at=lambda content: content)
    assert find(path)[0].startswith("step 2: its share is ")
    if name == "window":
        assert "from steps 1 to 2, but the rows that it saw give" in find(path)[0]


def test_a_guardrail_that_does_not_bind_the_share_is_found(path):
    change_step(
        path, lambda share: share.update(binding="delay"), at=lambda content: content["share"]
    )
    assert find(path) == ["step 2: it says that 'delay' binds its share, but 'complaint' does"]
    assert not verify_store(path).ok


def test_a_reason_that_the_numbers_do_not_give_is_found(tmp_path):
    """The first step has no rows of the old system, and the second begins under an alarm."""
    path, halted = tmp_path / "release.db", "alarm 1 stood when the step began"
    with tether.Release(path, {"complaint": 0.1}) as release:
        release.advance()
        release.halt("a test", actor="ann")
        assert release.advance().ramp_share.reason == halted
    assert find(path) == []
    change_step(
        path, lambda share: share.update(reason=halted), at=lambda content: content["share"]
    )
    (found,) = find(path)
    assert found.startswith(f"step 2: its reason is {halted!r}, but its numbers say 'there are")
    assert not verify_store(path).ok


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("policy", "'another'"),
        ("reference", "1"),
        ("fingerprint", "'abc'"),
        ("policy_digest", "'abc'"),
        ("policy_problem", "'none'"),
        ("log_psi", "0.5"),
        ("begun", "'yesterday'"),
        ("begun", "'2026-01-01T00:00:00'"),
    ],
)
def test_a_column_that_no_step_of_a_release_has_is_found(path, column, value):
    edit(path, f"UPDATE tether_rounds SET {column} = {value} WHERE number = 2")
    (found,) = find(path)
    assert found.startswith("step 2: ")
    assert value.strip("'") in found
    assert not verify_store(path).ok


@pytest.mark.parametrize(
    ("length", "edited", "message"),
    [
        ({"keys_per_step": 100}, "keys_per_step", "step 1 ended after 100 of its 101 keys"),
        ({"step_duration": 3600}, "step_seconds", "before its 1e+06 seconds were over"),
    ],
)
def test_a_step_that_ended_early_is_found(tmp_path, monkeypatch, length, edited, message):
    path, begun = tmp_path / "release.db", step_module.moment()
    log = {"complaint": ArmCounts(500, 10.0)}
    with tether.Release(path, {"complaint": 0.1}, old=log, **length) as release:
        release.assign(KEYS[:100])
        later = begun + timedelta(hours=2)
        monkeypatch.setattr("tether.rounds.releases.beginning.moment", lambda: later)
        release.assign(KEYS[100:110])
        assert release.step.number == 2
    assert find(path) == []
    value = {"keys_per_step": "101", "step_seconds": "1000000.0"}[edited]
    edit(path, f"UPDATE tether_settings SET value = '{value}' WHERE name = '{edited}'")
    (found,) = find(path)
    assert message in found


def test_rounding_at_alpha_is_no_finding(tmp_path):
    """The old system's bound is exactly alpha: 90 losses of 0.1, however they are added."""
    for parts in (1, 7, 19):
        made = tmp_path / f"{parts}.db"
        with tether.Release(made, {"complaint": 0.1}, keys_per_step=99) as release:
            release.assign(KEYS[:99])
            for some in np.array_split(np.arange(99), parts):
                losses = np.where(some < 90, 0.1, 0.0)
                release.observe([KEYS[k] for k in some], {"complaint": losses})
            release.assign("the next step")
        assert find(made) == []
        assert verify_store(made).ok


def test_a_share_that_differs_from_its_record_is_found(path):
    edit(path, "UPDATE tether_rounds SET log_beta = -0.1 WHERE number = 2")
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


def test_a_key_that_is_there_twice_is_found(path):
    edit(
        path,
        "UPDATE tether_actions SET context = (SELECT context FROM tether_actions WHERE id = 1), "
        "action = (SELECT action FROM tether_actions WHERE id = 1) WHERE id = 2",
    )
    assert any("has 2 rows of one system" in each for each in find(path))


def test_sums_of_a_step_that_were_changed_are_found(path):
    edit(path, "DELETE FROM tether_kept WHERE name = 'old 1'")
    assert "the sums of the old system in step 1" in str(verify_store(path))


def test_an_exported_release_can_be_imported_and_goes_on(path, tmp_path):
    export_run(path, tmp_path / "release.parquet")
    assert verify_export(tmp_path / "release.parquet").ok
    import_run(tmp_path / "release.parquet", tmp_path / "copy.db", actor="ann")
    assert verify_store(tmp_path / "copy.db").ok
    with tether.Release(path) as release, tether.Release(tmp_path / "copy.db") as copy:
        assert copy.history().steps == release.history().steps
        assert copy.assign(KEYS) == release.assign(KEYS)
        assert copy.assign(["one more"]) == release.assign(["one more"])
        for each in (release, copy):
            each.observe("one more", {"complaint": 0.0})
            each.advance()
        assert copy.share == release.share
    engine = sql.create_engine(f"sqlite:///{tmp_path / 'copy.db'}")
    with engine.begin() as connection, pytest.raises(sql.exc.IntegrityError):
        connection.exec_driver_sql(
            "UPDATE tether_actions SET context = (SELECT context FROM tether_actions WHERE id = 1),"
            " action = (SELECT action FROM tether_actions WHERE id = 1) WHERE id = 2"
        )
    engine.dispose()
