"""Decisions that are in the log of a shortlist more than once.

Fresh candidates are drawn beside each copy of a row, so its probabilities differ, and only the
context, the action and its loss are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tether._core.contexts import labels
from tether._core.types import Floats, Integers
from tether.control.repeated_rows import repeated_warning


def repeated_decisions_warning(
    contexts: Any, actions: NDArray[Any], losses: Mapping[str, Floats]
) -> str | None:
    """Say that decisions occur more than once where this is no coincidence.

    Parameters
    ----------
    contexts : array, data frame or int
        One row per action, or their number where there are no contexts.
    actions : ndarray
        The logged actions.
    losses : mapping of str to ndarray
        The losses by name.

    Returns
    -------
    str or None
        What is said; None where rows may be equal by chance, or cannot be compared.
    """
    action = _labels(actions)
    if action is None:
        return None
    columns: list[Floats | Integers] = [action, *losses.values()]
    same = "actions and losses"
    if isinstance(contexts, int):
        return repeated_warning(columns, None, same)
    context = _labels(contexts)
    if context is None:
        return None
    return repeated_warning([context, *columns], context, f"contexts, {same}")


def _labels(values: Any) -> Integers | None:
    """A number for each row, the same for equal rows; None for objects that have no labels."""
    try:
        return labels(values)
    except TypeError:
        return None
