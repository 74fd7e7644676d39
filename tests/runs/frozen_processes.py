"""Processes that are stopped for a while, and calls that must come back nevertheless."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.runs.postgres_server import Server

PATIENCE_SECONDS = 120
"""After this a call hangs for good. Far above every deadline in the tests: machines are loaded."""


@contextmanager
def frozen(pids: Iterable[int]) -> Iterator[None]:
    """Stop processes with SIGSTOP inside of the block; one that has just ended is passed over."""
    stopped = list(pids)
    try:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def server_pids(server: Server) -> list[int]:
    """Every process of a PostgreSQL server, the one that accepts connections first."""
    postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def answer(call: Callable[[], Any]) -> Any:
    """What a call returns or raises; a failed test, and not a hanging one, if it does neither."""
    result: list[Any] = []

    def run() -> None:
        try:
            result.append(call())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert result, f"no answer within {PATIENCE_SECONDS} s"
    return result[0]
