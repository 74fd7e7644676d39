"""How the actions of two policies differ, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.policies.unknown_actions import TO_KNOW_MORE_ACTIONS

MAX_ACTIONS_SHOWN = 3
"""How many actions of a kind an error lists."""


def different_actions(
    first_name: str, first: NDArray[Any], second_name: str, second: NDArray[Any]
) -> str:
    """An error message that shows where the lists of actions differ."""
    start = f"the policies {first_name} and {second_name} have different actions: "
    end = "; they must list the same ones in the same order"
    first, second = np.asarray(first), np.asarray(second)
    if (first.dtype.kind in "US") != (second.dtype.kind in "US"):
        kinds = [f"{each[0].item()!r} ({each.dtype})" for each in (first, second)]
        return f"{start}{first_name} has {kinds[0]} where {second_name} has {kinds[1]}{end}"
    only = [np.setdiff1d(first, second), np.setdiff1d(second, first)]
    if len(only[0]) or len(only[1]):
        parts = [
            f"{len(extra)} of the {len(actions)} of {name} are not in the other list: {_few(extra)}"
            for name, actions, extra in zip(
                (first_name, second_name), (first, second), only, strict=True
            )
            if len(extra)
        ]
        return (
            f"{start}{', and '.join(parts)}; they must list the same ones. {TO_KNOW_MORE_ACTIONS}"
        )
    place = int(np.argmax(first != second)) if len(first) == len(second) else 0
    return (
        f"{start}the same {len(first)} in another order; at position {place} {first_name} has "
        f"{first[place].item()!r} and {second_name} has {second[place].item()!r}{end}"
    )


def _few(actions: NDArray[Any]) -> str:
    more = ", …" if len(actions) > MAX_ACTIONS_SHOWN else ""
    return ", ".join(map(repr, actions[:MAX_ACTIONS_SHOWN].tolist())) + more
