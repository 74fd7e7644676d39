"""Processes that are stopped for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.runs.postgres_server import Server


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
