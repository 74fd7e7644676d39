"""The contexts of the rows of a frame, which a user must state: a column, several, or None.

Whether there are contexts decides which formula is right, and a frame does not tell: a column of
features looks like any other column. So an unstated context is an error, not a guess.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from numpy.typing import NDArray

from tether._core import frames
from tether._core.contexts import column_labels
from tether._core.plain_arrays import plain_array
from tether._core.types import Frame


class Unstated(Enum):
    """The default of an argument that must be stated although None is one of its values."""

    UNSTATED = "unstated"

    def __repr__(self) -> str:
        return "<must be stated>"


UNSTATED: Final[Literal[Unstated.UNSTATED]] = Unstated.UNSTATED
ContextColumns: TypeAlias = "str | Sequence[str] | Unstated | None"
"""A column, several columns, or None for no contexts."""


class ContextsNotStatedError(TypeError):
    """The caller did not say which columns of a frame are contexts; `candidates` could be."""

    def __init__(self, candidates: list[str]) -> None:
        self.candidates = candidates
        super().__init__(
            "context must be stated: context='column', context=['feature', 'feature'] (rows with "
            "equal features are in the same context), or context=None if neither policy depends on "
            f"a context; {describe_candidates(candidates)}"
        )


def describe_candidates(candidates: list[str]) -> str:
    """Which columns could be contexts, in words."""
    if not candidates:
        return "the frame has no column left that could be one"
    return f"the columns that could be contexts are {candidates}"


def read_contexts(
    frame: Frame, context: ContextColumns, used: Collection[str], *, has_tables: bool = False
) -> NDArray[Any] | None:
    """One label per row from the stated columns; None if it is stated that there are no contexts.

    A single column of integers or strings is its own label; other rows are labelled by content.
    With tables of all actions contexts need not be stated: each row then has its own normalizing
    constant in any case.
    """
    if isinstance(context, Unstated):
        if has_tables:
            return None
        raise ContextsNotStatedError([name for name in frames.names(frame) if name not in used])
    if context is None:
        return None
    columns = [context] if isinstance(context, str) else list(context)
    if not columns:
        raise ValueError("context is empty: name at least one column, or write context=None")
    for name in columns:
        if not isinstance(name, str):
            raise TypeError(f"context must name columns by strings, got {name!r}")
        if name in used:
            raise ValueError(
                f"context: the column {name!r} holds losses or log-probabilities, so it cannot be "
                f"a context too"
            )
    arrays = [plain_array(frames.column(frame, "context", name)) for name in columns]
    if isinstance(context, str) and _is_label(arrays[0]):
        return arrays[0]
    return column_labels(arrays)


def _is_label(column: NDArray[Any]) -> bool:
    """Whether a column can be used as it is: integers, booleans or strings."""
    return column.dtype.kind in "iubUS"
