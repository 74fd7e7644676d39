"""What the options of `tether release` say, as `tether.Release` takes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta

from tether._core.durations import SECONDS_OF_UNIT, read_duration


def guardrails(given: Sequence[str]) -> dict[str, float | tuple[float, float]]:
    """The values of --guardrail: NAME=ALPHA, or NAME=ALPHA:BOUND."""
    found: dict[str, float | tuple[float, float]] = {}
    for name, text in _pairs("--guardrail", given, "NAME=ALPHA or NAME=ALPHA:BOUND").items():
        alpha, colon, bound = text.partition(":")
        tolerated = _number("--guardrail", alpha, f"{name}={text}")
        found[name] = tolerated
        if colon:
            found[name] = tolerated, _number("--guardrail", bound, f"{name}={text}")
    return found


def named_numbers(option: str, given: Sequence[str]) -> dict[str, float]:
    """The values of an option that is given as NAME=NUMBER, by name."""
    pairs = _pairs(option, given, "NAME=NUMBER")
    return {name: _number(option, text, f"{name}={text}") for name, text in pairs.items()}


def duration(option: str, text: str) -> timedelta:
    """A time: a number of seconds, or a number with the unit s, m, h or d."""
    wanted = "a number of seconds, or a number with a unit such as 90s, 15m, 12h or 7d"
    return read_duration(option, text, wanted)


def silence(text: str) -> int | timedelta | None:
    """The value of --max-silence: a number of rows, a time with its unit, or none."""
    if text == "none":
        return None
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    if text[-1:] in tuple(SECONDS_OF_UNIT)[1:]:
        return duration("--max-silence", text)
    raise ValueError(
        f"--max-silence must be a number of rows, a time with its unit such as 12h, or none, got "
        f"{text!r:.80}"
    )


def salt(text: str) -> bytes:
    """The value of --salt."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"--salt must be bytes in hexadecimal, got {text!r:.80}") from None


@contextmanager
def naming_options(options: Mapping[str, str]) -> Iterator[None]:
    """Errors about arguments, as errors about the options that stand for them.

    A name that is no word of a sentence is replaced anywhere, and others where a message begins.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        message = str(error)
        for name, option in options.items():
            pattern = rf"\b{name}\b" if "_" in name else rf"^{name}(?=[ \[])"
            message = re.sub(pattern, option, message)
        raise type(error)(message) from error


def _pairs(option: str, given: Sequence[str], form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.rpartition("=")
        if not (name and equals and value):
            raise ValueError(f"{option} must be {form}, got {text!r:.80}")
        if name in found:
            raise ValueError(f"{option} names {name!r:.80} twice")
        found[name] = value
    return found


def _number(option: str, text: str, given: str) -> float:
    try:
        return float(text)
    except ValueError:
        hint = ""
        with suppress(ValueError):
            if text.endswith("%"):
                hint = f": {text[:-1].strip()} % is {float(text[:-1]) / 100:g}"
            elif option == "--loss":
                hint = ": write 1 for the harm and 0 for a good outcome"
        raise ValueError(f"{option} {given!r:.80}: {text!r:.80} is not a number{hint}") from None
