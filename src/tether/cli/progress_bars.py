"""Bars on stderr that show how far long work has come: the command line's reporter of progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID

from tether._core import progress
from tether._core.words import visible


@contextmanager
def progress_bars() -> Iterator[None]:
    """Within this block the steps of long work are shown on stderr, if that is a terminal.

    Nothing remains of the bars when the block ends, however it ends.

    Examples
    --------
    >>> with progress_bars():  # doctest: +SKIP
    ...     log = tether.make_log(safe, optimized, prompts, answers, losses)
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    bars = _Bars(
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),  # what is printed meanwhile stands above the bars
    )
    try:
        with progress.reported_to(bars):
            yield
    finally:
        bars.stop()


class _Bars(Progress):
    """A bar for every step that has not ended; without any, nothing is drawn."""

    def begin(self, description: str, total: float | None) -> TaskID:
        self.start()
        return self.add_task(escape(visible(description)), total=total)

    def end(self, step: TaskID) -> None:
        self.remove_task(step)
        if not self.tasks:
            self.stop()
