"""When a request is sent again, and after what time."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

AGAIN = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}
"""Answers after which the same request may succeed: it came too early, or the server failed.

What a server does not implement (501, 505) it will not implement a second later.
"""
OF_THE_REQUEST = frozenset({400, 413, 422})
"""Refusals of what was asked, such as a prompt too long; any other is of whoever asks."""
LONGEST_WAIT = 30.0
"""The most seconds between two requests, whatever a server asks for."""


def wait_asked(header: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, in digits or as a date; otherwise None.

    A time that has passed is no wait.
    """
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
