"""Serving: the safe policy answers where the tethered one fails, and it is written down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.contexts import as_contexts, length, take
from tether._core.validate import frozen
from tether.policies.fallback import attempt
from tether.sampling.errors import CapError

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Served:
    """Answers, one in each context, and who gave them.

    A row of the safe policy has the safe policy's density, and is counted there in the mixture of a
    log. Rows of the tethered policy come from one call that went through for all of them, and have
    its density if whether a call goes through has nothing to do with the answers: a server that is
    gone, a prompt that does not fit. Where answers of a kind make it fail (a score that is no
    number, an answer that takes too long), those that went through are not of that kind, and no
    record mends it: see `failures`.
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
    be answered, or that reaches the sampler's cap, does not take the others with it: they are asked
    again without it. A policy that is gone is not asked again. If the safe policy fails, that is
    raised. With mix the optimized policy is asked in every context, whoever then answers.
    """
    policy_calls.generator(rng)
    safe = getattr(policy, "safe", None) if safe is None else safe
    if safe is None:
        raise TypeError(f"safe must be the safe policy, since {policy!r} does not know it")
    contexts = as_contexts(contexts)
    pieces: list[tuple[Rows, NDArray[Any], bool]] = []
    failures: dict[str, None] = {}
    waiting, sifted = np.arange(length(contexts)), isinstance(contexts, int)
    while len(waiting):
        asked = take(contexts, waiting)
        try:
            pieces.append((waiting, attempt(policy, asked, rng), False))
            break
        except RuntimeError as error:
            fallen, told = _left_out(error, asked), [str(error)]
        except ValueError as error:
            # Once only, and not where no context is to blame: asking until it goes well would
            # pick the answers that go well.
            refused = {} if sifted else _refused(policy, asked, rng)
            fallen, told = np.array(sorted(refused), dtype=np.int64), [*refused.values()]
            sifted = True
            if not refused:
                fallen, told = np.arange(len(waiting)), [str(error)]
        failures |= dict.fromkeys(told)
        rows = waiting[fallen]
        pieces.append((rows, policy_calls.draw("safe", safe, take(contexts, rows), rng), True))
        waiting = np.delete(waiting, fallen)
    drawn = policy_calls.concatenate_actions([actions for _, actions, _ in pieces])
    places = np.concatenate([rows for rows, _, _ in pieces])
    actions, from_safe = np.empty_like(drawn), np.zeros(len(drawn), dtype=np.bool_)
    actions[places] = drawn
    from_safe[places] = np.concatenate([np.full(len(rows), fell) for rows, _, fell in pieces])
    return Served(actions, frozen(from_safe), tuple(failures))


def _left_out(error: RuntimeError, contexts: Any) -> Rows:
    """The contexts in which this policy's own sampler gave up; all of them if it is gone."""
    told = error.__cause__  # of a policy that it is made of, the numbers would be of its draws
    if isinstance(told, CapError) and told.missing is not None and not isinstance(contexts, int):
        return told.missing
    return np.arange(length(contexts))


def _refused(policy: Any, contexts: Any, rng: np.random.Generator) -> dict[int, str]:
    """The contexts that are refused on their own, found by halving, and what is said of each.

    What is drawn here is thrown away, so that no answer is kept for having gone through.
    """
    refused: dict[int, str] = {}
    count = length(contexts)
    waiting = np.array_split(np.arange(count), 2) if count > 1 else []  # the whole was refused
    while waiting:
        rows = waiting.pop()
        try:
            attempt(policy, take(contexts, rows), rng)
        except RuntimeError as error:
            if not isinstance(error.__cause__, CapError):  # gone meanwhile: all of them fall back
                return dict.fromkeys(range(count), str(error))
        except ValueError as error:
            if len(rows) > 1:
                waiting += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
            else:
                refused[int(rows[0])] = str(error)
    return refused
