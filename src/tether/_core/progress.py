"""Progress of long work: code says how far it is, and a reporter shows it, if there is one.

    with progress.step("scoring", total=rows) as step:
        step.advance(batch)

Nothing is shown unless a reporter was installed with `reported_to`, as the command line does. It
belongs to the context (PEP 567) that installed it; any thread may advance a step that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import Any

_lock = RLock()
_installed: ContextVar[Any] = ContextVar("reporter", default=None)


class Step:
    """Work that is under way; once it has ended, advancing it does nothing."""

    def __init__(self, description: str, total: float | None) -> None:
        self._reporter = _installed.get()
        with _lock:
            self._name = self._reporter and self._reporter.begin(description, total)

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
    begun = Step(description, total)
    try:
        yield begun
    finally:
        begun.end()


@contextmanager
def reported_to(reporter: Any) -> Iterator[None]:
    """Within this block and context, steps are shown by this reporter, or by none.

    It has `begin(description, total)`, which returns what names a step, `advance(name, amount)` and
    `end(name)`, each called by one thread at a time.
    """
    before = _installed.set(reporter)
    try:
        yield
    finally:
        _installed.reset(before)
