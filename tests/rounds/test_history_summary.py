"""A run and its rounds in words and as a table."""

import dataclasses
import math

import numpy as np
import pytest

import tether
from tests.report import example_histories
from tether.release.arm_counts import ArmCounts
from tether.release.guardrail import Guardrail
from tether.rounds.history_summary import columns_of


def in_one_line(found):
    return " ".join(str(found).split())


@pytest.fixture(scope="module")
def history():
    return example_histories.ten_rounds()


def test_one_row_per_round(history):
    table = history.to_frame()
    assert table["round"].tolist() == list(range(1, 11))
    assert table["beta"].tolist() == [record.beta for record in history.rounds]
    assert table["loss"].tolist() == [record.losses["loss"].mean for record in history.rounds]
    assert table["pending"].tolist() == [record.pending for record in history.rounds]
    assert math.isnan(table["promise"][0])  # nothing was calibrated
    assert table["promise"][1:].tolist() == [r.calibration.promise for r in history.rounds[1:]]
    assert np.isnan(table["share"]).all()
    last = history.rounds[-1].to_frame()
    assert list(last) == list(table)
    for name, values in last.items():
        np.testing.assert_array_equal(values, table[name][-1:])


def test_several_losses_have_a_column_each():
    table = example_histories.two_losses().to_frame()
    assert any(name.startswith("loss[") for name in table)
    assert any(name.startswith("promise[") for name in table)
    assert "loss" not in table


def test_a_round_in_words(history):
    text = in_one_line(history.rounds[-1])
    assert text.startswith("round 10: biopsy-model-10 is served with beta = ")
    assert "the expected loss of the next action is at most" in text
    assert "310 observed, 86 pending, 4 withdrawn" in text
    assert "mean loss 0.1" in text
    first = in_one_line(history.rounds[0])
    assert first.startswith("round 1: the safe policy serves, no other policy was given")
    assert "note there are no rows to calibrate on yet" in first
    lost = dataclasses.replace(
        history.rounds[-1], retired=True, failure="no connection", fallback_rows=3, safe_rows=5
    )
    text = in_one_line(lost)
    assert "! the policy failed: no connection" in text
    assert "! its policy was lost" in text
    assert "5 by the safe policy, 3 of these because the other policy was unavailable" in text


def test_a_round_of_a_ramp_in_words(history):
    share = tether.release.ramp_share(
        {"loss": Guardrail(0.02)},
        old={"loss": ArmCounts(2000, 20.0)},
        new={"loss": ArmCounts(100, 3.0)},
    )
    record = dataclasses.replace(
        history.rounds[-1], calibration=None, ramp_share=share, window=9, window_from=9
    )
    text = in_one_line(record)
    assert "biopsy-model-10 takes a share of 0.3265" in text
    assert "why 100 rows of round 9; limited by 'loss'" in text
    assert record.to_frame()["share"].tolist() == [share.share]
    assert np.isnan(record.to_frame()["beta"]).all()
    none = dataclasses.replace(
        record, ramp_share=dataclasses.replace(share, share=0.0, reason="an alarm")
    )
    assert "the safe policy serves instead of biopsy-model-10" in str(none)


def test_a_run_in_words(history):
    text = str(history)
    assert text.startswith("round 10: biopsy-model-10 is served with beta = ")
    assert "loss: alpha 0.1, of losses up to 1" in text
    assert "biopsy-model-9" in text
    alarm = str(example_histories.active_alarm())
    assert alarm.startswith("the safe policy serves since an alarm in round 10: the distribution")
    assert str(example_histories.empty()).startswith("no round has begun")


def test_no_rows_are_no_columns():
    assert columns_of([]) == {}
    assert example_histories.empty().to_frame() == {}
