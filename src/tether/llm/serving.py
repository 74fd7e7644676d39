"""Serving: the safe policy answers where the tethered one fails, and it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether import _ask
from tether._check import frozen
from tether._contexts import length, settled, take


@dataclass(frozen=True)
class Served:
    """Answers, one in each context, and who gave them.

    A row of the safe policy is a row of the safe policy: in a log its `log_mix` counts it there,
    and not among those that the tethered policy produced. That is right as long as a failure has
    nothing to do with the answer that would have come: a server that is gone, a prompt that does
    not fit. Where answers of a kind make it fail, losses of that kind are never seen.
    """

    actions: NDArray[Any]
    from_safe: NDArray[np.bool_]
    """Which answers the safe policy gave because the tethered one failed."""
    failures: tuple[str, ...]
    """What went wrong, each message once."""

    @property
    def source(self) -> NDArray[np.str_]:
        """Who gave each answer, "safe" or "tethered"."""
        return np.where(self.from_safe, "safe", "tethered")

    def __str__(self) -> str:
        fallen = int(self.from_safe.sum())
        text = (
            f"{len(self.actions):,} answers, {fallen:,} of them the safe policy's after a failure"
        )
        return "\n  ".join([text, *self.failures])


def serve(policy: Any, contexts: Any, rng: np.random.Generator, *, safe: Any = None) -> Served:
    """An answer in every context: the policy's, or the safe policy's where the policy fails.

    `safe` is the safe policy, that of a `Tethered` unless said otherwise. One context that cannot
    be answered does not take the others with it: they are asked again without it. A server that is
    gone (a RuntimeError) is not asked for each of them. If the safe policy fails, that is raised.
    """
    _ask.generator(rng)
    safe = getattr(policy, "safe", None) if safe is None else safe
    if safe is None:
        raise TypeError(f"safe must be the safe policy, since {policy!r} does not know it")
    contexts = settled(contexts)
    pieces: list[tuple[NDArray[np.int64], NDArray[Any], bool]] = []
    failures: dict[str, None] = {}
    waiting = [np.arange(length(contexts))]
    while waiting:
        rows = waiting.pop()
        asked = len(rows) if isinstance(contexts, int) else take(contexts, rows)
        try:
            pieces.append((rows, _ask.draw("tethered", policy, asked, rng), False))
        except (ValueError, TypeError) as error:
            if len(rows) > 1:
                waiting += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
                continue
            failures[str(error)] = None
            pieces.append((rows, _ask.draw("safe", safe, asked, rng), True))
        except (RuntimeError, OSError) as error:
            failures[str(error)] = None
            pieces.append((rows, _ask.draw("safe", safe, asked, rng), True))
    drawn = _ask.joined([actions for _, actions, _ in pieces])
    places = np.concatenate([rows for rows, _, _ in pieces])
    actions, from_safe = np.empty_like(drawn), np.zeros(len(drawn), dtype=np.bool_)
    actions[places] = drawn
    from_safe[places] = np.concatenate([np.full(len(rows), fell) for rows, _, fell in pieces])
    return Served(actions, frozen(from_safe), tuple(failures))
