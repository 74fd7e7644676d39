"""The reduce protocol: partial (a kernel on one part), merge (two summaries), finish (the caller).

A kernel is a small frozen dataclass that can be pickled, so that any engine can send it to where
the rows are. Summaries merge in any order, and in any grouping, to the same bits: they hold counts,
maxima, and sums of integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]
"""The columns of one part by name, all of the same length."""


class Summary(Protocol):
    """What is known of some rows."""

    def merge(self, other: Self) -> Self:
        """What is known of both; the order does not matter."""
        ...


class Kernel(Protocol):
    """What is computed from each part: `columns` names what it reads."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that `partial` reads."""
        ...

    def partial(self, columns: Columns) -> Any:
        """The summary of one part; a part without rows is never passed."""
        ...


class Parts(Protocol):
    """Rows that are only seen through kernels."""

    def reduce(self, kernel: Kernel) -> Any:
        """The summaries of all parts, merged; None if there are no rows."""
        ...


def needs_whole_parts(kernel: Kernel) -> bool:
    """Whether a kernel must see the rows of one item together, and so a file in one piece."""
    return bool(getattr(kernel, "whole_parts", False))


Merged = TypeVar("Merged", bound=Summary)


def merge_all(summaries: Iterable[Merged | None]) -> Merged | None:
    """All summaries merged; None if there are none, or if all are None."""
    total: Merged | None = None
    for summary in summaries:
        if summary is not None:
            total = summary if total is None else total.merge(summary)
    return total


@dataclass(frozen=True)
class Several:
    """The summaries of several kernels, made in one pass."""

    each: tuple[Any, ...]

    def merge(self, other: Several) -> Several:
        """Merge them one by one."""
        pairs = zip(self.each, other.each, strict=True)
        return Several(tuple(first.merge(second) for first, second in pairs))


@dataclass(frozen=True)
class Together:
    """Several kernels in one pass over the rows."""

    kernels: tuple[Kernel, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that one of them reads."""
        return tuple(dict.fromkeys(name for each in self.kernels for name in each.columns))

    def partial(self, columns: Columns) -> Several:
        """The summary of each."""
        return Several(tuple(each.partial(columns) for each in self.kernels))
