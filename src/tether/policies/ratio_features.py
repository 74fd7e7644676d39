"""What a classifier sees of an action in its context: a matrix with one row per action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats

Features: TypeAlias = Callable[[Any, NDArray[Any]], Any]
"""A function of (contexts, actions) that returns a matrix with one row per action."""


def feature_matrix(features: Features | None, contexts: Any, actions: NDArray[Any]) -> Any:
    """The features of each action in its context: a matrix of numbers that rows can be taken of."""
    if features is None:
        columns = [] if isinstance(contexts, int) else [_numbers("contexts", contexts)]
        return np.hstack([*columns, _numbers("actions", actions)])
    matrix = features(contexts, actions)
    matrix = matrix.tocsr() if is_sparse(matrix) else _numbers("features", matrix)
    if matrix.shape[0] != len(actions):
        raise ValueError(f"features returned {matrix.shape[0]} rows for {len(actions)} actions")
    return matrix


def visible_columns(
    features: Features | None, matrix: Any, contexts: Any, actions: NDArray[Any]
) -> Any:
    """The features and, if they are numbers, the contexts and actions that they were made of.

    An error that the chosen features cannot show may then still be seen.
    """
    if features is None or is_sparse(matrix):
        return matrix
    try:
        return np.hstack([matrix, feature_matrix(None, contexts, actions)])
    except (TypeError, ValueError):  # text, or rows of different lengths
        return matrix


def _numbers(name: str, values: Any) -> Floats:
    table = np.asarray(values)
    if table.dtype.kind not in "fiub":
        advice = ""
        if name != "features":
            advice = (
                "; give features, a function of (contexts, actions) that returns what the model was"
                " fitted on, such as lambda contexts, actions: contexts.assign(action=actions)"
            )
        raise TypeError(f"{name} must hold numbers, got {_described(values, table)}{advice}")
    return table.reshape(len(table), -1).astype(np.float64)


def _described(values: Any, table: NDArray[Any]) -> str:
    """Which columns of a frame hold no numbers, or the type of an array."""
    names = [
        str(name)
        for name in getattr(values, "columns", ())
        if np.asarray(values[name]).dtype.kind not in "fiub"
    ]
    return f"other values in {', '.join(names)}" if names else f"dtype {table.dtype}"


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix is a SciPy sparse one."""
    return hasattr(matrix, "tocsr")
