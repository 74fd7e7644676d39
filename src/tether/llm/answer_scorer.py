"""Scores of answers as what picks from a shortlist: each row once, checked, and named."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.policy_calls import ERRORS_ABOUT_INPUT
from tether._core.types import Floats

Row = tuple[Hashable, ...]
"""A context and the answers to it, in a form that can be compared."""


class AnswerScorer(ABC):
    """The common part of scorers; one says how it reads contexts and answers.

    The scores of a row may depend on that row alone, and not on chance: a judge must be asked at
    temperature 0, and a scorer that has changed is another policy with another name.

    Parameters
    ----------
    score : callable
        A function of a context and its answers that returns one score per answer.
    batched : bool
        Whether it is a function of a list of contexts and a list of their answers instead.
    name : str or None
        The name of this very scorer.
    check_every : float
        How many seconds pass between two checks that old rows have their scores.
    """

    def __init__(
        self, score: Callable[..., Any], batched: bool, name: str | None, check_every: float
    ) -> None:
        if not callable(score):
            raise TypeError(f"score must be a function of {self._arguments}, got {score!r:.80}")
        self._score, self._batched, self.name = score, bool(batched), name
        self._check_every = validate.number(
            "check_every", check_every, above=0.0, below=float("inf"), including=(0.0,)
        )
        self._checked_at, self._lock = -float("inf"), Lock()

    _arguments = "(context, answers)"

    @abstractmethod
    def _row(self, context: Any, answers: Any) -> Row:
        """A context and its answers in a form that can be compared."""

    @abstractmethod
    def _read(self, rows: list[Row]) -> tuple[list[Any], list[list[Any]]]:
        """What the function has of rows: contexts, and the answers to each."""

    @property
    def fingerprint(self) -> str | None:
        """What tells this scorer from another one: its name."""
        return None if self.name is None else f"scorer {self.name}"

    def __call__(self, contexts: Any, candidates: Any) -> Floats:
        """Score every candidate of each row."""
        rows = [self._row(*each) for each in zip(contexts, candidates, strict=True)]
        distinct = list(dict.fromkeys(rows))
        try:
            read = self._read(distinct)
        except ERRORS_ABOUT_INPUT as error:  # it is not the scorer that failed
            raise ScorerError(f"an answer cannot be scored: {error}") from error
        try:
            made = self._ask(distinct, *read)
        except ERRORS_ABOUT_INPUT as error:
            raise ScorerError(f"the scorer failed: {error!r:.200}") from error
        scores = dict(zip(distinct, made, strict=True))
        return np.array([scores[row] for row in rows], dtype=np.float64)

    def check_is_due(self) -> bool:
        """Whether it is to be seen now that old rows have their scores; then not for a while.

        It depends on the time alone. Scores that are remembered would do the same, but while the
        scorer is unavailable they would decide by the answers which of them it picks.

        Returns
        -------
        bool
            Whether it is.
        """
        now = time.monotonic()
        with self._lock:
            is_due = now - self._checked_at >= self._check_every
            if is_due:
                self._checked_at = now
        return is_due

    def check_again(self) -> None:
        """Note that old rows did not have their scores, or have none now: the check stays due."""
        with self._lock:
            self._checked_at = -float("inf")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self._score!r})"

    def _ask(
        self, rows: list[Row], asked: list[Any], answers: list[list[Any]]
    ) -> list[list[float]]:
        if self._batched:
            made: Any = list(self._score(asked, answers))
        else:
            made = [self._score(*each) for each in zip(asked, answers, strict=True)]
        if len(made) != len(rows):
            raise ValueError(f"the scorer returned scores of {len(made)} rows for {len(rows)}")
        scores = [_as_array(each).tolist() for each in made]
        for row, each in zip(rows, scores, strict=True):
            if not isinstance(each, list) or len(each) != len(row) - 1:
                raise ValueError(
                    f"the scorer returned {each!r:.80} for {len(row) - 1} answers, expected one "
                    f"score per answer"
                )
            if not all(score < np.inf for score in each):
                raise ValueError(f"the scorer returned {each!r:.80}, expected no NaN and no inf")
        return scores


class ScorerError(ValueError):
    """A scorer that cannot score these answers: that depends on them, so nobody acts instead.

    Examples
    --------
    >>> issubclass(ScorerError, ValueError)
    True
    """


def is_scorer_error(error: BaseException | None) -> bool:
    """Whether an error, or one that it comes from, is that of a scorer."""
    while error is not None and not isinstance(error, ScorerError):
        error = error.__cause__
    return error is not None


def _as_array(scores: Any) -> Floats:
    """Scores as numbers; a torch tensor, of any dtype and device, is read too."""
    if hasattr(scores, "detach"):
        scores = scores.detach().double().cpu().numpy()
    return np.asarray(scores, dtype=np.float64)
