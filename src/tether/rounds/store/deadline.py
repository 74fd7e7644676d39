"""A deadline for what is asked of a database: every call ends, whatever the database does.

`within(seconds)` sets the deadline of the present thread. The connections of a store look it up
before each wait: see `sqlite_deadline` and `postgres_deadline`. A deadline covers everything inside
of it: connecting, waiting for other writers, every statement, the commit and the rollback.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

DEADLINE_SECONDS = 5.0
"""How long a call waits for its database if nothing else is said."""


@dataclass(frozen=True)
class _Deadline:
    seconds: float
    moment: float


_NEVER = _Deadline(math.inf, math.inf)
_deadline: ContextVar[_Deadline | None] = ContextVar("tether_deadline", default=None)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Everything inside must be answered within so many seconds; None means that it may take long.

    A deadline that was set further outside and ends earlier stays in force.
    """
    if seconds is not None and (math.isnan(seconds) or seconds <= 0):
        raise ValueError(f"seconds must be above 0, or None for no deadline, got {seconds!r}")
    outer = _deadline.get() or _NEVER
    inner = _NEVER if seconds is None else _Deadline(seconds, time.monotonic() + seconds)
    token = _deadline.set(min(outer, inner, key=lambda deadline: deadline.moment))
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def by_default(seconds: float) -> Iterator[None]:
    """Set a deadline only where nothing has been said about one."""
    if _deadline.get() is not None:
        yield
    else:
        with within(seconds):
            yield


def remaining() -> float:
    """The seconds that are left, at least 0; infinite without a deadline."""
    return max(0.0, _present().moment - time.monotonic())


def passed() -> bool:
    """Whether the deadline has passed."""
    return time.monotonic() >= _present().moment


def message() -> str:
    """What an error says when the deadline has passed."""
    return f"no answer within the deadline of {_present().seconds:g} s"


def _present() -> _Deadline:
    return _deadline.get() or _NEVER
