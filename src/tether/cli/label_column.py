"""The columns of scores and labels of `tether threshold`, with errors that name the options."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.text_hints import number_hint


def require_score_numbers(name: str, values: Any) -> None:
    """Refuse text as scores."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub" or not array.size:
        return
    listed = array.reshape(-1).tolist()
    texts = [each for each in listed if isinstance(each, str) and not _is_number(each)]
    if texts or isinstance(listed[0], str):
        text = (texts or listed)[0]
        raise ValueError(
            f"--score: column {name!r} must hold real numbers, got text such as {text!r}"
            f"{number_hint(text)}"
        )


def require_labels(name: str, values: Any) -> None:
    """Refuse text and numbers other than 0 and 1 as labels.

    Of two words, nothing says which of them means a true claim.
    """
    first = values[0] if len(values) else None
    if isinstance(first, str):
        text = str(first)
        raise ValueError(
            f"{accepted_labels(name)}, got text such as {text!r}: {words_as_labels(name)}"
        )
    array = np.asarray(values)
    if array.dtype.kind in "fiu" and (bad := (array != 0) & (array != 1)).any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{accepted_labels(name)}, got {array[row].item()!r} in row {row + 1} "
            f"({int(bad.sum()):,} such value(s))"
        )


def words_as_labels(name: str) -> str:
    """How a column of words becomes labels."""
    return (
        "write a column that says whether it is the word for a true claim, in pandas "
        f"table['is_true'] = table[{name!r}] == 'WORD'"
    )


def accepted_labels(name: str) -> str:
    """What the column of labels may hold."""
    return (
        f"--label: column {name!r} must hold true and false, or 1 and 0, where true and 1 are "
        "claims that are true"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
