"""Calls in threads that nobody has to wait for: not a caller that gives up, nor the process's end.

Those of `concurrent.futures` are joined when the process ends, however long they take.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Thread
from typing import Generic, TypeVar

POLL_INTERVAL = 1.0
"""Seconds after which a waiting caller checks for an interrupt."""

Result = TypeVar("Result")


class Call(Generic[Result]):
    """A function, what it returns, and for how long it runs."""

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function, self._begun = function, float("inf")
        self.future: futures.Future[Result] = futures.Future()

    @property
    def seconds(self) -> float:
        """How long it has run; negative before it has begun."""
        return time.monotonic() - self._begun

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, within a time."""
        return bool(futures.wait([self.future], timeout=seconds).done)

    def run(self) -> None:
        """Call the function."""
        self._begun = time.monotonic()
        try:
            self.future.set_result(self._function())
        except BaseException as error:
            self.future.set_exception(error)


def call_all(
    functions: Sequence[Callable[[], Result]], at_once: int, abandoned: Event
) -> list[Call[Result]]:
    """Begin to call functions, some at once; those that have not begun when abandoned never do."""
    calls = [Call(each) for each in functions]
    waiting = deque(calls)

    def work() -> None:
        while not abandoned.is_set():
            try:
                call = waiting.popleft()
            except IndexError:
                return
            call.run()

    for _ in range(min(at_once, len(calls))):
        Thread(target=work, name="tether-request", daemon=True).start()
    return calls


_ending: ContextVar[Event | None] = ContextVar("ending", default=None)


@contextmanager
def ending(event: Event) -> Iterator[None]:
    """Within this block and thread nobody waits for a server any more once the event is set."""
    before = _ending.set(event)
    try:
        yield
    finally:
        _ending.reset(before)


def is_ending() -> bool:
    """Whether that is so now."""
    event = _ending.get()
    return event is not None and event.is_set()
