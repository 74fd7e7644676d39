"""Progress of long work: code says how far it is, and a reporter shows it, if there is one.

    with progress.step("scoring", total=rows) as step:
        step.advance(batch)

Nothing is shown unless a reporter was installed with `reported_to`, as the command line does. It
belongs to the context (PEP 567) that installed it: a thread started there has none of its own,
unless it runs in a copy of that context, but may advance a step that it is given.
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


class Step:
    """Work that is under way; any thread may advance it."""

    def __init__(self, shown_by: _Installed | None, description: str, total: float | None) -> None:
        self._shown_by = shown_by
        if shown_by is not None:
            with shown_by.lock:
                self._name = shown_by.reporter.begin(description, total)

    def advance(self, amount: float = 1) -> None:
        """Say that this much more is done; once the step has ended, nothing happens."""
        shown_by = self._shown_by
        if shown_by is not None:
            with shown_by.lock:
                if self._shown_by is not None:  # no other thread has ended it meanwhile
                    shown_by.reporter.advance(self._name, amount)

    def _end(self) -> None:
        shown_by = self._shown_by
        if shown_by is not None:
            with shown_by.lock:
                self._shown_by = None
                shown_by.reporter.end(self._name)


class _Installed:
    def __init__(self, reporter: Reporter) -> None:
        self.reporter, self.lock = reporter, RLock()


_installed: ContextVar[_Installed | None] = ContextVar("reporter", default=None)


@contextmanager
def step(description: str, total: float | None = None) -> Iterator[Step]:
    """A step that lasts as long as the block; `total` is how much there is to do, if known."""
    begun = Step(_installed.get(), description, total)
    try:
        yield begun
    finally:
        begun._end()


@contextmanager
def reported_to(reporter: Reporter | None) -> Iterator[None]:
    """Within this block and context, steps are shown by this reporter, or by none."""
    before = _installed.set(None if reporter is None else _Installed(reporter))
    try:
        yield
    finally:
        _installed.reset(before)
