"""Contexts: one row for each action to take, or just their number where there are none.

Everywhere in the library `contexts` is an array, list or frame with one row a context, or a whole
number n: n actions of a policy that answers nothing in particular.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def settled(contexts: Any, actions: Any = None) -> Any:
    """Contexts that can be counted and indexed; None is read as the number of `actions`."""
    if contexts is None and actions is not None:
        contexts = len(actions)
    if isinstance(contexts, (bool, np.bool_)) or contexts is None:
        raise TypeError(f"contexts must be an array with one row each, or a number, got {contexts}")
    if isinstance(contexts, (int, np.integer)):
        if actions is not None and contexts != len(actions):
            raise ValueError(f"actions has {len(actions)} rows but contexts is {contexts}")
        if contexts < 1:
            raise ValueError(f"contexts must be at least 1 when it is a number, got {contexts}")
        return int(contexts)
    if not hasattr(contexts, "iloc") and not hasattr(contexts, "shape"):
        contexts = np.asarray(contexts)
    if len(getattr(contexts, "shape", ())) == 0:
        raise TypeError(f"contexts must be an array with one row each, or a number, got {contexts}")
    if length(contexts) == 0:
        raise ValueError("contexts is empty; at least one row is needed")
    if actions is not None and length(contexts) != len(actions):
        raise ValueError(f"actions has {len(actions)} rows but contexts has {length(contexts)}")
    return contexts


def length(contexts: Any) -> int:
    """How many actions settled contexts ask for."""
    return contexts if isinstance(contexts, int) else int(contexts.shape[0])


def take(contexts: Any, index: NDArray[np.int64]) -> Any:
    """Some of the contexts, in the order of `index`, repeats allowed."""
    if isinstance(contexts, int):
        return len(index)
    return contexts.iloc[index] if hasattr(contexts, "iloc") else contexts[index]


def part(contexts: Any, start: int, stop: int) -> Any:
    """The contexts from start to before stop."""
    if isinstance(contexts, int):
        return min(stop, contexts) - start
    return (contexts.iloc if hasattr(contexts, "iloc") else contexts)[start:stop]


def parts(contexts: Any, size: int) -> list[Any]:
    """All the contexts, so many at a time."""
    return [part(contexts, start, start + size) for start in range(0, length(contexts), size)]
