"""Progress of long work: code says how far it is, and a reporter shows it, if there is one.

    with progress.step("scoring", total=rows) as step:
        step.advance(batch)

Nothing is shown unless a reporter was installed with `reported_to`, as the command line does. It
belongs to the context (PEP 567) that installed it; any thread may advance a step that it is given.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any, Protocol


class Reporter(Protocol):
    """Shows steps. Its methods are called by one thread at a time."""

    def begin(self, description: str, total: float | None) -> Hashable:
        """Show a new step, below those that have not ended; return what names it."""
        ...

    def advance(self, step: Any, amount: float) -> None:
        """Show that this much more of a step is done."""
        ...

    def end(self, step: Any) -> None:
        """Show a step no longer, whether it was completed or not."""
        ...


_lock = RLock()
_installed: ContextVar[Reporter | None] = ContextVar("reporter", default=None)


class Step:
    """Work that is under way; once it has ended, advancing it does nothing."""

    def __init__(self, reporter: Reporter | None, description: str, total: float | None) -> None:
        self._reporter = reporter
        if reporter is not None:
            with _lock:
                self._name = reporter.begin(description, total)

    def advance(self, amount: float = 1) -> None:
        """Say that this much more is done."""
        with _lock:
            if self._reporter is not None:
                self._reporter.advance(self._name, amount)

    def end(self) -> None:
        """Show it no longer."""
        with _lock:
            if self._reporter is not None:
                self._reporter.end(self._name)
            self._reporter = None


@contextmanager
def step(description: str, total: float | None = None) -> Iterator[Step]:
    """A step that lasts as long as the block; `total` is how much there is to do, if known."""
    begun = Step(_installed.get(), description, total)
    try:
        yield begun
    finally:
        begun.end()


@contextmanager
def reported_to(reporter: Reporter | None) -> Iterator[None]:
    """Within this block and context, steps are shown by this reporter, or by none."""
    before = _installed.set(reporter)
    try:
        yield
    finally:
        _installed.reset(before)
