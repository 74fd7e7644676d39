"""Scores of what a policy drew itself: the server has stated them with the draw."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

MAX_DRAWN_SCORES = 100_000
"""How many draws are remembered; older ones are scored by the server again."""

Row = tuple[int, ...]


class DrawnScores:
    """Remembers the log-probabilities of the last draws, by prompt and completion; thread-safe."""

    def __init__(self, most: int = MAX_DRAWN_SCORES) -> None:
        self._most, self._lock = most, Lock()
        self._scores: OrderedDict[tuple[Row, Row], float] = OrderedDict()

    def remember(self, drawn: Iterable[tuple[Row, Row, float]]) -> None:
        """Note draws; those with a score of NaN are left out."""
        with self._lock:
            for prompt, completion, score in drawn:
                if score == score:
                    self._scores[prompt, completion] = score
                    self._scores.move_to_end((prompt, completion))
            while len(self._scores) > self._most:
                self._scores.popitem(last=False)

    def find(self, prompt: Row, completion: Row) -> float | None:
        """The score of a draw; None if it is not known."""
        with self._lock:
            return self._scores.get((prompt, completion))

    def __reduce__(self) -> tuple[type[DrawnScores], tuple[int]]:
        return DrawnScores, (self._most,)
