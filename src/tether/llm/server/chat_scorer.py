"""Scores of chat answers, by a function or by a server, as what picks from a shortlist."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.types import Floats
from tether.llm.server.chat_messages import message_of, messages_of
from tether.llm.server.http_client import HTTPClient, ServerError

MAX_REMEMBERED_SCORES = 4_096
"""How many rows' scores are remembered."""

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
    remember : float, default 0.0
        For how many seconds scores are remembered. A run asks for the scores of a few old rows in
        every call, to see that the scorer has not changed; with 60 it sees this once a minute.

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
        remember: float = 0.0,
    ) -> None:
        if not callable(score):
            raise TypeError(f"score must be a function of (messages, answers), got {score!r:.80}")
        self._score, self._batched, self.name = score, batched, name
        self._remember = validate.number(
            "remember", remember, above=0.0, below=float("inf"), including=(0.0,)
        )
        self._known: OrderedDict[tuple[str, ...], tuple[float, list[float]]] = OrderedDict()
        self._lock = Lock()

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
        known = self._recall(rows)
        new = [row for row in dict.fromkeys(rows) if row not in known]
        if new:
            scored = dict(zip(new, self._ask(new), strict=True))
            self._keep(scored)
            known |= scored
        return np.array([known[row] for row in rows], dtype=np.float64)

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
        return scores

    def _recall(self, rows: list[tuple[str, ...]]) -> dict[tuple[str, ...], list[float]]:
        oldest = time.monotonic() - self._remember
        with self._lock:
            found = {row: self._known[row] for row in rows if row in self._known}
        return {row: scores for row, (since, scores) in found.items() if since >= oldest}

    def _keep(self, scored: dict[tuple[str, ...], list[float]]) -> None:
        if not self._remember:
            return
        now = time.monotonic()
        with self._lock:
            for row, scores in scored.items():
                self._known[row] = now, scores
                self._known.move_to_end(row)
            while len(self._known) > MAX_REMEMBERED_SCORES:
                self._known.popitem(last=False)


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
        self.client = HTTPClient(base, api_key, timeout, retries, concurrency)
        self.client.first_retry_wait = 0.1

    def __call__(
        self, messages: list[Messages], answers: list[list[dict[str, Any]]]
    ) -> list[list[float]]:
        """Score the answers to several conversations."""
        bodies = [
            {"messages": asked, "answers": given}
            for asked, given in zip(messages, answers, strict=True)
        ]
        made = self.client.post_all(self._path, bodies)
        return [_read_scores(each, len(given)) for each, given in zip(made, answers, strict=True)]

    def __repr__(self) -> str:
        return f"ScoreServer({f'{self.client.base_url}/{self._path}'!r})"


def _read_scores(response: dict[str, Any], count: int) -> list[float]:
    scores = response.get("scores")
    are_numbers = isinstance(scores, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in scores
    )
    if not are_numbers or len(scores) != count:  # type: ignore[arg-type]
        raise ServerError(f"the scorer returned {response!r:.80}, not {count} scores")
    return [float(each) for each in scores]  # type: ignore[union-attr]
