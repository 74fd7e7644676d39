"""Counting what draws cost: answers and tokens, in one thread from a beginning to an end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

TOKEN_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
"""What is summed of the usage that a server states."""


@dataclass
class ChatUsage:
    """The answers that were drawn, and the tokens that the server states for them.

    Parameters
    ----------
    draws : int
        How many answers were drawn, whichever of them was served.
    tokens : dict of str to int
        The sums of "prompt_tokens", "completion_tokens" and "total_tokens".
    """

    draws: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOKEN_COUNTS, 0))

    def add(self, draws: int, stated: Any) -> None:
        """Add a response's draws and its usage, as far as it states one."""
        self.draws += draws
        for name in TOKEN_COUNTS:
            count = stated.get(name) if isinstance(stated, dict) else None
            if isinstance(count, int) and not isinstance(count, bool) and count > 0:
                self.tokens[name] += count


_counting: ContextVar[ChatUsage | None] = ContextVar("chat usage", default=None)


@contextmanager
def counting_usage() -> Iterator[ChatUsage]:
    """Count what `ChatPolicy` and `OpenAIPolicy` draw in this block and thread.

    Yields
    ------
    ChatUsage
        The counts so far.

    Examples
    --------
    >>> with counting_usage() as usage:
    ...     count_draws(2, {"total_tokens": 12})
    >>> usage.draws, usage.tokens["total_tokens"]
    (2, 12)
    """
    usage = ChatUsage()
    before = _counting.set(usage)
    try:
        yield usage
    finally:
        _counting.reset(before)


def count_draws(draws: int, stated: Any) -> None:
    """Note the usage that a response states, if anyone counts."""
    usage = _counting.get()
    if usage is not None:
        usage.add(draws, stated)
