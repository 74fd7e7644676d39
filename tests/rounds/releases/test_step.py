"""A step as it is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tests.rounds.releases.test_next_step import follow, rows_with, settings_with
from tether.rounds.releases.step import Step


@pytest.mark.parametrize("alarm", [None, 3])
def test_a_step_is_what_its_row_says(alarm):
    settings = settings_with()
    made = follow(settings, rows_with(new1=(50, 1.5, 2)), follow(settings, rows_with()), alarm)
    made = replace(made, seen={0: (50, 48), 3: (7, 0)})
    row = made.to_row()
    assert Step.from_row(row) == made
    assert made.rows_before == 57
    with pytest.raises(ValueError, match="log_beta is"):
        Step.from_row({**row, "log_beta": -0.5})
    with pytest.raises(ValueError, match="note is"):
        Step.from_row({**row, "note": "another reason"})


def test_a_step_is_over_after_its_keys_or_its_time_or_a_resumption():
    step = follow(settings_with(), rows_with())
    begun = datetime.fromisoformat(step.begun)
    by_hand, by_keys = settings_with(), settings_with(keys_per_step=10)
    by_time = settings_with(step_seconds=60.0)
    later = begun + timedelta(seconds=60)
    for settings, rows, now, expected in (
        (by_hand, 10**6, later, False),
        (by_keys, 9, later, False),
        (by_keys, 10, begun, True),
        (by_time, 10**6, begun + timedelta(seconds=59), False),
        (by_time, 0, later, True),
    ):
        assert step.is_over(settings, rows, 0, now) == expected
        assert step.is_over(settings, rows, 1, now)
    assert step.keys_left(by_keys, 4) == 6
    assert step.keys_left(by_time, 4) is None
