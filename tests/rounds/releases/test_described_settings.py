"""The settings of a release in words."""

import pytest

from tether.rounds.releases.described_settings import compared_settings, step_text
from tether.rounds.releases.given_settings import given_settings

NOTHING = {
    "old": None,
    "promise": False,
    "confidence": None,
    "keys_per_step": None,
    "step_duration": None,
    "wait": 0,
    "alarm_risk": None,
    "false_alarm_probability": 0.05,
    "max_silence": 10_000,
    "salt": b"salt",
}


def made(guardrails=None, **options):
    return given_settings(guardrails or {"harm": 0.02}, **NOTHING | options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "steps that are ended by hand"),
        ({"keys_per_step": 1000}, "steps of 1,000 keys"),
        ({"step_duration": 172_800}, "steps of 2d"),
        ({"step_duration": 43_200}, "steps of 12h"),
        ({"step_duration": 90}, "steps of 90s"),
        ({"step_duration": 1_800}, "steps of 30m"),
    ],
)
def test_the_length_of_a_step(options, words):
    assert step_text(made(**options)) == words


def test_what_differs_is_named_and_what_is_free_is_not():
    asked, held = compared_settings(made(wait=1, salt=b"pepper"), made(old={"harm": [0.0] * 9}), ())
    assert asked == (
        "harm with alpha 0.02, steps that are ended by hand, wait 1, salt 7065…, no losses of the "
        "old system from before"
    )
    assert held == (
        "harm with alpha 0.02, steps that are ended by hand, wait 0, salt 7361…, 9 losses of the "
        "old system for harm with a sum of 0"
    )
    free = compared_settings(made(wait=1, salt=b"pepper"), made(), ("salt", "log"))
    assert free[1] == "harm with alpha 0.02, steps that are ended by hand, wait 0"
