"""Scores of chat answers, by a function or by a server, as what picks from a shortlist."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.policy_calls import ERRORS_ABOUT_INPUT
from tether._core.types import Floats
from tether.llm.server.chat_messages import message_of, messages_of
from tether.llm.server.http_client import HTTPClient
from tether.llm.server.server_error import ServerError

Messages = list[Any]
Score = Callable[[Messages, list[dict[str, Any]]], Sequence[float]]
"""Scores the answers to one conversation."""
ScoreMany = Callable[[list[Messages], list[list[dict[str, Any]]]], Sequence[Sequence[float]]]
"""Scores the answers to each of several conversations."""


class ChatScorer:
    """A score of chat answers as the optimized policy of a `Shortlist` of a `ChatPolicy`.

    The scores of a row may depend on that row alone, and not on chance: a judge must be asked at
    temperature 0, and a scorer that has changed is another policy with another name.

    Parameters
    ----------
    score : callable
        A function of the messages of a request and the messages that answer it, which returns one
        score per answer; the higher, the better.
    batched : bool, default False
        Whether it is a function of a list of conversations and a list of their answers instead, and
        returns a list of scores for each.
    name : str, optional
        The name of this very scorer, by which a run recognizes it after a restart.
    check_every : float, default 0.0
        A run asks for the scores of a few old rows in every call, to see that the scorer has not
        changed; with 60 only once a minute.

    Examples
    --------
    >>> from tether.llm import ChatScorer, chat_context
    >>> shorter = ChatScorer(lambda messages, answers: [-len(each["content"]) for each in answers])
    >>> contexts = np.array([chat_context({"messages": [{"role": "user", "content": "Hi"}]})])
    >>> answers = [
    ...     '{"finish_reason":"stop","message":{"content":"Hello!","role":"assistant"}}',
    ...     '{"finish_reason":"stop","message":{"content":"Hi","role":"assistant"}}',
    ... ]
    >>> shorter(contexts, np.array([answers]))
    array([[-6., -2.]])
    """

    def __init__(
        self,
        score: Score | ScoreMany,
        *,
        batched: bool = False,
        name: str | None = None,
        check_every: float = 0.0,
    ) -> None:
        if not callable(score):
            raise TypeError(f"score must be a function of (messages, answers), got {score!r:.80}")
        self._score, self._batched, self.name = score, batched, name
        self._check_every = validate.number(
            "check_every", check_every, above=0.0, below=float("inf"), including=(0.0,)
        )
        self._checked_at, self._lock = -float("inf"), Lock()

    @property
    def fingerprint(self) -> str | None:
        """What tells this scorer from another one: its name."""
        return None if self.name is None else f"scorer {self.name}"

    def __call__(self, contexts: Any, candidates: Any) -> Floats:
        """Score every candidate of each row."""
        rows = [
            (str(context), *map(str, answers))
            for context, answers in zip(contexts, candidates, strict=True)
        ]
        distinct = list(dict.fromkeys(rows))
        try:
            made = self._ask(distinct)
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
        return f"ChatScorer({self.name or self._score!r})"

    def _ask(self, rows: list[tuple[str, ...]]) -> list[list[float]]:
        asked = [messages_of(row[0]) for row in rows]
        answers = [[message_of(action) for action in row[1:]] for row in rows]
        if self._batched:
            made: Any = list(self._score(asked, answers))  # type: ignore[arg-type]
        else:
            made = [self._score(*each) for each in zip(asked, answers, strict=True)]  # type: ignore[arg-type]
        if len(made) != len(rows):
            raise ValueError(f"the scorer returned scores of {len(made)} rows for {len(rows)}")
        scores = [np.asarray(each, dtype=np.float64).tolist() for each in made]
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


class ScoreServer:
    """A server that scores answers: POST {"messages": …, "answers": […]} → {"scores": […]}.

    It is the batched function of a `ChatScorer`. One that is unavailable, too slow or garbled is a
    `ServerError`, for which a run lets the safe policy act. One that refuses its input (status 400,
    413 or 422) is an error, since that depends on the answers.

    Parameters
    ----------
    url : str
        Where requests are sent.
    api_key : str, optional
        Sent as a bearer token.
    timeout : float, default 5
        The seconds that a response may take.
    retries : int, default 1
        How many times a failed request is sent again.
    concurrency : int, default 32
        The largest number of requests at a time.

    Examples
    --------
    >>> from tether.llm import ChatScorer, ScoreServer
    >>> scorer = ChatScorer(ScoreServer("http://localhost:9000/score"), batched=True, name="v1")
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 5.0,
        retries: int = 1,
        concurrency: int = 32,
    ) -> None:
        base, _, self._path = url.rstrip("/").rpartition("/")
        retries = validate.integer_at_least("retries", retries, 0)
        concurrency = validate.integer_at_least("concurrency", concurrency)
        self.client = HTTPClient(
            base, api_key, timeout=timeout, retries=retries, concurrency=concurrency
        )
        self.client.first_retry_wait = 0.1

    def __call__(
        self, messages: list[Messages], answers: list[list[dict[str, Any]]]
    ) -> list[list[float]]:
        """Score the answers to several conversations."""
        bodies = [
            {"messages": asked, "answers": given}
            for asked, given in zip(messages, answers, strict=True)
        ]
        # Nothing is remembered: while the server is down that would decide, by the answers that
        # were seen before, which of them it picks.
        made = self.client.post_all(self._path, bodies, fresh=True, doing="scoring answers")
        return [_read_scores(each, len(given)) for each, given in zip(made, answers, strict=True)]

    def __repr__(self) -> str:
        return f"ScoreServer({f'{self.client.base_url}/{self._path}'!r})"


def _read_scores(response: dict[str, Any], count: int) -> list[float]:
    scores = response.get("scores")
    are_numbers = isinstance(scores, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in scores
    )
    if not are_numbers or len(scores) != count:  # type: ignore[arg-type]
        found = f"{len(scores)} values" if isinstance(scores, list) else type(scores).__name__
        raise ServerError(f"the scorer returned {found} as scores, not {count} numbers")
    return [float(each) for each in scores]  # type: ignore[union-attr]
