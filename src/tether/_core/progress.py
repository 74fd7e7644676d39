"""Progress of long work: code says how far it is, and a reporter shows it, if one was installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

_installed: ContextVar[Any] = ContextVar("reporter", default=None)
Advance: TypeAlias = Callable[[float], None]
"""Says that this much more is done."""


@contextmanager
def step(description: str, total: float | None = None) -> Iterator[Advance]:
    """A step that lasts as long as the block; `total` is how much there is to do, if known."""
    reporter = _installed.get()
    if reporter is None:
        yield lambda amount: None
        return
    name = reporter.begin(description, total)
    try:
        yield lambda amount: reporter.advance(name, amount)
    finally:
        reporter.end(name)


@contextmanager
def reported_to(reporter: Any) -> Iterator[None]:
    """Within this block and context, steps are shown by this reporter, or by none.

    It has `begin(description, total)`, which returns what names a step, `advance(name, amount)` and
    `end(name)`; steps are advanced by any thread.
    """
    before = _installed.set(reporter)
    try:
        yield
    finally:
        _installed.reset(before)
