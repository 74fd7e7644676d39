"""What is logged under the name `tether`: silent unless asked for, useful, and without secrets."""

import logging
import subprocess
import sys

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import begun_run, monitored_run


@pytest.fixture
def records(caplog):
    caplog.set_level(logging.DEBUG, logger="tether")
    return caplog


def test_nothing_is_printed_by_default():
    code = """
import tether, logging
logging.getLogger("tether.rounds").warning("heard")
assert any(isinstance(each, logging.NullHandler) for each in logging.getLogger("tether").handlers)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_calibrations_and_selections_say_what_they_found(records):
    tether.calibrate(tether.Log(np.zeros(50), np.zeros(50), np.zeros(50)), alpha=0.1)
    assert "calibrated on 50 rows: beta " in records.text
    assert "family clip, alpha 0.1" in records.text
    tether.calibrate(tether.Log(np.ones(50), np.zeros(50), np.zeros(50)), alpha=0.1)
    assert "no beta passes, the safe policy serves" in records.text
    tether.gcrc([[0.0, 0.1]] * 50, alpha=0.2)
    assert "gCRC on 50 items: threshold " in records.text
    assert {each.name for each in records.records} == {"tether.control", "tether.risk"}


def test_rounds_stores_alarms_and_acts_of_people_are_logged(records, tmp_path):
    run, _, _ = begun_run(tether.Gaussian(0.5), store=str(tmp_path / "run.db"))
    assert "created sqlite:///" in records.text
    assert "round 1 of sqlite:///" in records.text
    assert "the safe policy serves (no optimized policy was given)" in records.text
    assert "round 2 of sqlite:///" in records.text
    run.halt("too many complaints", actor="ada")
    assert "alarm 1 (halt)" in records.text
    assert "halt by ada" in records.text
    run.resume("mended", actor="ada")
    assert "resume by ada" in records.text
    run.close()
    assert "closed sqlite:///" in records.text


def test_an_alarm_is_a_warning(records):
    run, present, rng = monitored_run()
    taken = present.act(400, rng)
    run.observe(taken, np.ones(400))
    raised = [each for each in records.records if each.levelno == logging.WARNING]
    assert [each.name for each in raised] == ["tether.rounds"]
    run.close()


def test_steps_of_a_release_are_logged(records):
    release = tether.Release("sqlite://", guardrails={"error": 0.1}, keys_per_step=20)
    for start in range(0, 60, 20):
        release.assign([f"user {k}" for k in range(start, start + 20)])
    assert "step 2 of sqlite://" in records.text
    release.close()


def test_passwords_are_not_logged(records):
    with pytest.raises(Exception, match="could not open"):
        tether.Controller(
            tether.Gaussian(0.0),
            store="postgresql+psycopg://ada:hunter2@127.0.0.1:1/none",
            alpha=0.1,
            deadline=0.5,
        )
    assert "hunter2" not in records.text
