"""An event loop in a thread of its own, which all HTTP clients of a process share.

Callers are ordinary functions, also inside of another event loop such as a notebook's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent import futures
from threading import Lock, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")

POLL_INTERVAL = 1.0
"""Seconds after which a waiting caller checks for an interrupt."""

_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked process has its own."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="tether-http", daemon=True).start()
        return loop


def run_in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Wait for what a coroutine returns; if the wait is interrupted, the coroutine is cancelled."""
    running = asyncio.run_coroutine_threadsafe(work, background_loop())
    try:
        while not futures.wait([running], timeout=POLL_INTERVAL).done:
            pass
        return running.result()
    finally:
        running.cancel()
