"""Actions of many requests in few calls of `act`: their contexts are put together.

A request with an idempotency key is a call of its own, since a key stands for a call. A call that
is refused is made again for each request alone, so that a request is refused only for its own
contexts. Rows are independent of each other, so what the others drew says nothing about a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether._core.contexts import length
from tether.rounds.returned_rows import TakenActions
from tether.rounds.served_run import ServedRun

Acted = TakenActions | Exception


@dataclass(frozen=True)
class ActionRequest:
    """What one request asks for: an action in each context, as JSON has them."""

    contexts: Sequence[Any]
    key: str | None = None


def act_together(run: ServedRun, requests: Sequence[ActionRequest]) -> list[Acted]:
    """What comes of each request: its actions, or an error."""
    results: dict[int, Acted] = {}
    groups: dict[Any, list[tuple[int, Any]]] = {}
    for place, request in enumerate(requests):
        try:
            contexts = run.contexts_from_json(request.contexts)
        except Exception as error:
            results[place] = error
            continue
        group = _format(contexts) if request.key is None else None
        if group is None:
            results[place] = _act(run, contexts, request.key)
        else:
            groups.setdefault(group, []).append((place, contexts))
    for members in groups.values():
        results |= _act_for_all(run, members)
    return [results[place] for place in range(len(requests))]


def _act_for_all(run: ServedRun, members: list[tuple[int, Any]]) -> dict[int, Acted]:
    """The actions of requests whose contexts have the same format."""
    together = _act(run, _joined([contexts for _, contexts in members]))
    if isinstance(together, ValueError | TypeError) and len(members) > 1:
        return {place: _act(run, contexts) for place, contexts in members}
    if isinstance(together, Exception):
        return {place: together for place, _ in members}
    results: dict[int, Acted] = {}
    begin = 0
    for place, contexts in members:
        end = begin + length(contexts)
        results[place] = _part(together, begin, end)
        begin = end
    return results


def _act(run: ServedRun, contexts: Any, key: str | None = None) -> Acted:
    try:
        return run.act(contexts, key=key)
    except Exception as error:
        return error


def _format(contexts: Any) -> Any:
    """What contexts must have in common to be put together; None if they cannot be."""
    if isinstance(contexts, int):
        return int
    if not isinstance(contexts, np.ndarray):
        return None  # a frame
    kind = contexts.dtype.kind
    return (kind if kind in "UO" else contexts.dtype.str), contexts.shape[1:]


def _joined(contexts: list[Any]) -> Any:
    if isinstance(contexts[0], int):
        return sum(contexts)
    return contexts[0] if len(contexts) == 1 else np.concatenate(contexts)


def _part(taken: TakenActions, begin: int, end: int) -> TakenActions:
    """Some rows of a call, without their contexts and candidates, which nobody asks for."""
    served = taken.served if isinstance(taken.served, int) else taken.served[begin:end]
    return dataclasses.replace(
        taken,
        ids=taken.ids[begin:end],
        actions=taken.actions[begin:end],
        contexts=end - begin,
        candidates=None,
        served=served,
    )
