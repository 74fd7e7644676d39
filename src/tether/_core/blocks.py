"""Passes over long arrays, block by block, on a few threads.

A block stays in the processor's cache while several operations pass over it, and needs temporary
arrays of its own length only. Blocks are cut by the length of the arrays alone, each is computed by
itself, and what they give is combined in their order. So a result has the same bits on one thread
and on several, whatever their timing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Found = TypeVar("Found")

BLOCK_ROWS = 1 << 15
"""How many rows a block has: a few arrays of this length fit into the cache of one core."""
BLOCKS_PER_THREAD = 4
"""How many blocks make another thread worth starting."""
DEFAULT_THREADS = 2
"""How many threads are used at most where nothing else is said."""
THREADS_VARIABLE = "TETHER_THREADS"
"""The environment variable with the most threads to use."""


def map_blocks(
    task: Callable[[slice], Found], rows: int, block_rows: int = BLOCK_ROWS
) -> list[Found]:
    """What `task` returns for each block of rows, in the order of the blocks.

    Tasks run at the same time on different threads: each may write to its own rows of a shared
    array and to nothing else. `numpy.errstate` must be entered inside the task.

    >>> map_blocks(lambda block: (block.start, block.stop), 5, block_rows=2)
    [(0, 2), (2, 4), (4, 5)]
    """
    blocks = [slice(start, min(start + block_rows, rows)) for start in range(0, rows, block_rows)]
    threads = len(blocks) // BLOCKS_PER_THREAD
    if threads < 2 or (threads := min(threads, thread_limit())) < 2:
        return [task(block) for block in blocks]

    def share(first: int) -> list[Found]:
        return [task(block) for block in blocks[first::threads]]

    found: list[Found | None] = [None] * len(blocks)
    with ThreadPoolExecutor(threads, "tether-blocks") as pool:
        for first, part in enumerate(pool.map(share, range(threads))):
            found[first::threads] = part
    return found  # type: ignore[return-value]  # every place is filled


def thread_limit() -> int:
    """The most threads to use: what `TETHER_THREADS` says, else two if there are two processors."""
    stated = os.environ.get(THREADS_VARIABLE)
    if stated is None:
        return min(DEFAULT_THREADS, _processors())
    if not (stated.isascii() and stated.isdigit() and int(stated) >= 1):
        raise ValueError(
            f"the environment variable {THREADS_VARIABLE} must be an integer of at least 1, got "
            f"{stated!r}"
        )
    return int(stated)


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
