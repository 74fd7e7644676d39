"""Durations as people write them: a number of seconds, or a number with the unit s, m, h or d."""

from __future__ import annotations

import re
from datetime import timedelta

SECONDS_OF_UNIT = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""The units of a duration."""


def read_duration(name: str, value: str | float, wanted: str) -> timedelta:
    """The duration that a value says; `name` and `wanted` are for the error if it says none."""
    matched = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)([smhd]?)", str(value))
    if matched is None:
        raise ValueError(f"{name} must be {wanted}, got {value!r:.80}")
    try:
        return timedelta(seconds=float(matched[1]) * SECONDS_OF_UNIT[matched[2]])
    except OverflowError:
        raise ValueError(f"{name} is too long: {value!r:.80}") from None
