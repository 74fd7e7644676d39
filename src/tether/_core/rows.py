"""Rows in blocks: the only difference between a log in memory, in files and on other machines.

A block is a mapping of names to arrays with equal numbers of rows; tables and stored draws have two
dimensions. Everything that is computed from rows is a kernel, a function of one block, whose
results are combined over blocks in their order. So a kernel never sees where the rows lie.
"""

from __future__ import annotations

import contextvars
import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

A = TypeVar("A")
T = TypeVar("T")
Block = dict[str, NDArray[Any]]

BLOCK = 1 << 16
"""How many rows a block has at most: a few columns of this length fit into a core's cache."""
BLOCKS_PER_THREAD = 4
"""How many blocks make another thread worth starting."""
THREADS_VARIABLE = "TETHER_THREADS"
"""The environment variable with the most threads to use; two without it."""

np.empty(1 << 19)  # glibc sees 4 MB freed, and from then on keeps what blocks free
"""Otherwise every array of a block is mapped anew: page faults cost as much as the arithmetic."""

ODD = np.uint64(0x9E3779B97F4A7C15)

COMBINE: dict[str, Callable[..., Any]] = {
    "sum": operator.add,
    "max": np.maximum,
    "logsum": np.logaddexp,
}


class Pass(NamedTuple):
    """A kernel, how its results are combined over blocks, and how many rows it takes at a time."""

    kernel: Callable[[Block], Mapping[str, Any]]
    how: Mapping[str, str]
    size: int = BLOCK


class Rows:
    """Columns in memory. Rows that lie elsewhere are subclasses with `blocks` of their own.

    >>> rows = Rows({"loss": [0.0, 1.0, 0.0]})
    >>> len(rows), rows.names
    (3, ('loss',))
    >>> rows.reduce(lambda block: {"most": block["loss"].max()}, {"most": "max"})
    {'most': np.float64(1.0)}
    """

    names: tuple[str, ...]

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        self._columns: Block = {name: np.asarray(column) for name, column in columns.items()}
        self.names = tuple(self._columns)
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns must have equal numbers of rows, got {lengths}")

    def __len__(self) -> int:
        return len(self._columns[self.names[0]])

    @property
    def columns(self) -> Block:
        """All rows as one block; an error where they do not lie in memory."""
        return self._columns

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """The rows in order, in blocks of at most `size`."""
        yield from cut(self._columns, size)

    def map(self, kernel: Callable[[Block], T], size: int = BLOCK) -> Iterator[T]:
        """What a kernel, which changes nothing outside itself, returns for each block, in order."""
        threads = min(len(self) // (size * BLOCKS_PER_THREAD), thread_limit())
        yield from side_by_side(kernel, self.blocks(size), threads)

    def reduce(
        self,
        kernel: Callable[[Block], Mapping[str, Any]],
        how: Mapping[str, str],
        size: int = BLOCK,
    ) -> dict[str, Any]:
        """What a kernel returns by name, combined over blocks: "sum", "max", "logsum", "concat".

        "logsum" is the log of a sum of exponentials; "concat" joins along the last axis.
        """
        return self.together(it=Pass(kernel, how, size))["it"]

    def together(self, **passes: Pass) -> dict[str, dict[str, Any]]:
        """What `reduce` finds for each of several kernels, in one pass over the rows."""

        def visit(block: Block) -> dict[str, list[Mapping[str, Any]]]:
            return {
                name: [each.kernel(own) for own in cut(block, each.size)]
                for name, each in passes.items()
            }

        found: dict[str, dict[str, list[Any]]] = {name: {} for name in passes}
        for visited in self.map(visit, max(each.size for each in passes.values())):
            for name, results in visited.items():
                for key, how in passes[name].how.items():
                    values = found[name].setdefault(key, [])
                    values += [each[key] for each in results if key in each]
                    if values and how != "concat":
                        values[:] = [reduce(COMBINE[how], values)]
        return {
            name: {
                key: np.concatenate(values, -1) if each.how[key] == "concat" else values[0]
                for key, values in found[name].items()
                if values
            }
            for name, each in passes.items()
        }


def side_by_side(task: Callable[[A], T], items: Iterable[A], threads: int) -> Iterator[T]:
    """What a task returns for each item, in order; a few of them run at the same time."""
    if threads < 2:
        yield from map(task, items)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, "tether-blocks") as pool:
        try:
            for item in items:
                context = contextvars.copy_context()  # numpy.errstate belongs to it
                waiting.append(pool.submit(context.run, task, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()


def hash_rows(columns: Iterable[NDArray[Any]]) -> NDArray[np.uint64]:
    """A number for each row that all its values determine; columns of numbers or of tables."""
    total: Any = np.uint64(0)
    for column in columns:
        values = np.add(column, 0.0, dtype=np.float64)  # −0 and 0 are the same
        for bits in np.atleast_2d(values.view(np.uint64).T):
            mixed = bits >> np.uint64(29)
            mixed ^= bits
            mixed ^= total
            mixed *= ODD
            total = mixed
    return np.asarray(total ^ (total >> np.uint64(32)))


def cut(columns: Block, size: int) -> Iterator[Block]:
    """A block in smaller ones of at most `size` rows, which share its memory."""
    rows = len(next(iter(columns.values())))
    for start in range(0, rows, size):
        yield {name: column[start : start + size] for name, column in columns.items()}


def thread_limit() -> int:
    """The most threads to use: what `TETHER_THREADS` says, else two."""
    stated = os.environ.get(THREADS_VARIABLE, "2")
    if not (stated.isascii() and stated.isdigit() and int(stated) >= 1):
        raise ValueError(f"{THREADS_VARIABLE} must be an integer of at least 1, got {stated!r}")
    return int(stated)
