"""Rounds of a ramp as rows of the store."""

from __future__ import annotations

import json

import pytest

from tether.release import ArmCounts, Guardrail, ramp_share
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.releases.step import Step


def record_with(share_rows=0):
    share = ramp_share(
        {"loss": Guardrail(0.1)},
        old={"loss": ArmCounts(100, 2.0)},
        new={"loss": ArmCounts(share_rows, 0.0)},
    )
    step = Step(5, share, 4, 3, 1, {0: (10, 7)}, "2026-01-01T00:00:00+00:00")
    return RampRecord(5, 2, 3, step)


def test_a_step_is_the_same_after_it_was_stored():
    record = record_with()
    row = record.to_row()
    assert (row["reference"], json.loads(row["calibration"])["first"]) == (2, 3)
    assert RampRecord.from_row(row) == record
    assert record.share == record.step.share


def test_a_round_without_a_policy_has_no_share():
    record = RampRecord(1, 0, 1, None)
    assert record.share == 0
    assert RampRecord.from_row({"number": 1, "calibration": None, **record.to_row()}) == record


def test_a_row_that_contradicts_itself_is_refused():
    row = record_with().to_row() | {"log_beta": 0.0}
    with pytest.raises(ValueError, match=r"log_beta is 0\.0, but its share says"):
        RampRecord.from_row(row)
