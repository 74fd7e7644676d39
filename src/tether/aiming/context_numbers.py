"""Contexts as numbers for a loss model: columns of words become indicators, one for each word.

Which words have one is fixed by the training rows. A word that is too rare there, new or missing
has none, and all indicators of its column are 0.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core.plain_arrays import is_missing, plain_array
from tether._core.types import Floats

MAX_INDICATED_WORDS = 32
"""So many words of a column have an indicator: the most frequent ones."""
MIN_ROWS_PER_WORD = 3
"""A word that is in fewer rows has none."""

Words: TypeAlias = "tuple[NDArray[Any] | None, ...]"
"""For each column of the contexts its words, or None if it holds numbers."""


def find_words(contexts: Any) -> Words:
    """The words of each column; none at all where all columns are numbers, or there are none."""
    if isinstance(contexts, int) or np.asarray(contexts).dtype.kind in "fiub":
        return ()
    return tuple(_words_of(name, column) for name, column in _named_columns(contexts))


def context_numbers(contexts: Any, rows: int, words: Words) -> Floats:
    """One row of numbers per context."""
    if isinstance(contexts, int):
        return np.zeros((rows, 0))
    if not words:
        table = np.asarray(contexts)
        if table.dtype.kind in "fiub":
            return table.reshape(len(table), -1).astype(np.float64)
    columns = list(_named_columns(contexts))
    known: Words = words or (None,) * len(columns)
    if len(known) != len(columns):
        raise ValueError(
            f"contexts has {len(columns)} columns, and had {len(known)} when the loss model was "
            f"fitted"
        )
    parts = [
        _numbers_of(name, column)[:, None]
        if listed is None
        else np.asarray(column[:, None] == listed[None], dtype=np.float64)
        for (name, column), listed in zip(columns, known, strict=True)
    ]
    return np.hstack(parts)


def _named_columns(contexts: Any) -> list[tuple[str, NDArray[Any]]]:
    """The columns of a frame or an array, with what errors call them."""
    if hasattr(contexts, "columns"):
        return [(f"the column {name!r}", plain_array(contexts[name])) for name in contexts.columns]
    table = np.asarray(contexts)
    if table.ndim == 1:
        return [("contexts", plain_array(table))]
    flat = table.reshape(len(table), -1)
    return [(f"column {k}", plain_array(flat[:, k])) for k in range(flat.shape[1])]


def _words_of(name: str, column: NDArray[Any]) -> NDArray[Any] | None:
    """The words of a column that are frequent enough; None if it holds numbers."""
    present = [each for each in column.tolist() if not is_missing(each)]
    if not any(isinstance(each, str) for each in present):
        _numbers_of(name, column)
        return None
    if not all(isinstance(each, str) for each in present):
        raise TypeError(f"contexts: {name} has words and numbers side by side{ADVICE}")
    words, counts = np.unique(np.array(present, dtype=np.str_), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:MAX_INDICATED_WORDS]
    return np.sort(words[order[counts[order] >= MIN_ROWS_PER_WORD]])


def _numbers_of(name: str, column: NDArray[Any]) -> Floats:
    """A column of numbers, in which some may be missing."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    try:
        return np.array([np.nan if is_missing(each) else float(each) for each in column.tolist()])
    except (TypeError, ValueError):
        odd = next(each for each in column.tolist() if not isinstance(each, (int, float)))
        raise TypeError(
            f"contexts: {name} must hold numbers or words, got {odd!r:.80}{ADVICE}"
        ) from None


ADVICE = (
    ": leave the column out, turn it into numbers, or pass a loss model of your own, such as "
    "lambda contexts, actions: pipeline.predict_proba(contexts.assign(action=actions))[:, 1]"
)
"""What to do about a column that is neither numbers nor words."""
