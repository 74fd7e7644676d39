import math

import pytest

from tether.report.number_format import format_number, format_percent, format_time


@pytest.mark.parametrize(
    ("value", "text"),
    [(-0.0821, "−0.0821"), (-2e-7, "-2e-7"), (3e12, "3e12"), (math.nan, "–"), (-math.inf, "−∞")],
)
def test_numbers(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("iso_time", "text"),
    [
        ("yesterday", "yesterday"),
        (None, "–"),
        ("2026-03-01T09:30:00", "1 March 2026, 09:30 UTC"),
    ],
)
def test_times(iso_time, text):
    assert format_time(iso_time) == text


def test_a_missing_percentage_is_a_dash():
    assert format_percent(math.nan) == "–"
