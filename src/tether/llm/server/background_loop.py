"""An event loop in a thread of its own, which all HTTP clients of a process share.

Callers are ordinary functions, also inside of another event loop such as a notebook's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from concurrent import futures
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from tether.llm.server.server_error import ServerError

Result = TypeVar("Result")

POLL_INTERVAL = 1.0
"""Seconds after which a waiting caller checks for an interrupt."""

_ending: ContextVar[Event | None] = ContextVar("ending", default=None)
_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked process has its own."""
    loop = _loops.get(os.getpid())
    if loop is not None:  # without the lock: what ends connections may run anywhere
        return loop
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="tether-http", daemon=True).start()
        return loop


def _forget_loops() -> None:
    """In a forked process: no other thread of it holds the lock or runs a loop."""
    global _lock
    _lock = Lock()
    _loops.clear()


os.register_at_fork(after_in_child=_forget_loops)


def run_in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Wait for what a coroutine returns; if the wait is interrupted, the coroutine is cancelled.

    Once `ending` is over it is not waited for.
    """
    running = asyncio.run_coroutine_threadsafe(work, background_loop())
    try:
        while not futures.wait([running], timeout=POLL_INTERVAL).done:
            event = _ending.get()
            if event is not None and event.is_set():
                raise ServerError("the server was not waited for: the program ends")
        return running.result()
    finally:
        running.cancel()


@contextmanager
def ending(event: Event) -> Iterator[None]:
    """Within this block and thread nobody waits for a server any more once the event is set."""
    before = _ending.set(event)
    try:
        yield
    finally:
        _ending.reset(before)
