"""What the options of `tether release` say."""

from datetime import timedelta

import pytest

from tether.cli.releases import option_values


def test_guardrails():
    assert option_values.guardrails(["a=0.1", "b=0.2:3", "c=d=1e-3"]) == {
        "a": 0.1,
        "b": (0.2, 3.0),
        "c=d": 0.001,
    }


@pytest.mark.parametrize("text", ["", "a", "a=", "=0.1", "="])
def test_what_is_no_pair(text):
    with pytest.raises(ValueError, match="--loss must be NAME=NUMBER"):
        option_values.named_numbers("--loss", [text])


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5h", 5_400), ("15m", 900), ("7d", 604_800), ("2s", 2)]
)
def test_durations(text, seconds):
    assert option_values.duration("--x", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "h", "-1h", "1 h", "1e3", "nan", "9" * 30, "½h", "1w"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match="--x must be a number of seconds"):
        option_values.duration("--x", text)


def test_a_duration_that_no_calendar_has():
    with pytest.raises(ValueError, match="--x is too long"):
        option_values.duration("--x", "9" * 15 + "d")


def test_silence_is_a_number_of_rows_or_a_time():
    assert option_values.silence("500") == 500
    assert option_values.silence("2h") == timedelta(hours=2)
    assert option_values.silence("none") is None
    for text in ("", "x", "1.5", "-3"):
        with pytest.raises(ValueError, match="--max-silence must be a number of rows"):
            option_values.silence(text)


def test_errors_name_options_and_leave_sentences_alone():
    names = {"old": "--old", "keys_per_step": "--keys-per-step"}
    for message, shown in {
        "old must have rows": "--old must have rows",
        "old['x'] is wrong": "--old['x'] is wrong",
        "the old system": "the old system",
        "older": "older",
        "give keys_per_step": "give --keys-per-step",
    }.items():
        with pytest.raises(ValueError) as caught, option_values.naming_options(names):
            raise ValueError(message)
        assert str(caught.value) == shown


def test_a_percentage_is_told_as_a_number():
    with pytest.raises(ValueError, match=r"'2%' is not a number: 2 % is 0\.02"):
        option_values.guardrails(["a=2%"])
    with pytest.raises(ValueError, match=r"'x%' is not a number$"):
        option_values.guardrails(["a=x%"])
