"""Answers that a failed call has got: the same requests in a later call need not be sent again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MAX_KEPT_ANSWERS = 10_000
"""How many answers are kept; the oldest go first."""
MAX_KEPT_SECONDS = 3600.0
"""How long an answer is kept: by then another model may be served."""

Answer = dict[str, Any]


class KeptAnswers:
    """Answers by the names of their requests; for one event loop.

    Calls that succeed, such as comparisons of the served model, leave the answers of others alone.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[bytes, tuple[float, Answer]] = {}

    def find(self, names: Iterable[bytes]) -> dict[bytes, Answer]:
        """The answers to those requests that have one."""
        oldest = self._clock() - MAX_KEPT_SECONDS
        kept = ((name, self._kept.get(name)) for name in names)
        return {name: each[1] for name, each in kept if each is not None and each[0] >= oldest}

    def keep(self, answers: Mapping[bytes, Answer]) -> None:
        """Keep answers that a failed call has got or found here."""
        now = self._clock()
        for name, answer in answers.items():
            self._kept.setdefault(name, (now, answer))
        for name in list(self._kept)[:-MAX_KEPT_ANSWERS]:
            del self._kept[name]

    def drop(self, names: Iterable[bytes]) -> None:
        """Forget the answers to requests of a call that has succeeded."""
        for name in names:
            self._kept.pop(name, None)

    def __len__(self) -> int:
        return len(self._kept)
