"""Progress of long work: code says how far it is, and a reporter shows it, if one was installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_installed: ContextVar[Any] = ContextVar("reporter", default=None)


@dataclass(frozen=True)
class Step:
    """Work that is under way, and how its reporter, if there is one, calls it."""

    reporter: Any
    name: Any

    def advance(self, amount: float = 1) -> None:
        """Say that this much more is done."""
        if self.reporter is not None:
            self.reporter.advance(self.name, amount)


@contextmanager
def step(description: str, total: float | None = None) -> Iterator[Step]:
    """A step that lasts as long as the block; `total` is how much there is to do, if known."""
    reporter = _installed.get()
    begun = Step(reporter, reporter and reporter.begin(description, total))
    try:
        yield begun
    finally:
        if reporter is not None:
            reporter.end(begun.name)


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
