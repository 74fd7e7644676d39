"""Durations: seconds, or a number with a unit."""

from datetime import timedelta

import pytest

from tether._core.words import read_duration


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604_800), (90, 90), (0.5, 0.5)],
)
def test_numbers_and_units(value, seconds):
    assert read_duration("pause", value, "a time") == timedelta(seconds=seconds)


@pytest.mark.parametrize("value", ["", "s", "1w", "-1s", "1e3", "1h30m", " 1s", -5])
def test_errors_name_the_argument_and_show_the_value(value):
    with pytest.raises(ValueError, match="pause must be a time, got") as error:
        read_duration("pause", value, "a time")
    assert str(error.value).endswith(repr(value))


def test_more_than_a_calendar_has():
    with pytest.raises(ValueError, match="pause is too long: '9"):
        read_duration("pause", "9" * 15 + "d", "a time")
