"""Scores of chat answers, by a function or by a server, as what picks from a shortlist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tether._core import validate
from tether.llm.answer_scorer import AnswerScorer, Row
from tether.llm.server.chat_messages import message_of, messages_of
from tether.llm.server.http_client import HTTPClient
from tether.llm.server.server_error import ServerError

Messages = list[Any]
Score = Callable[[Messages, list[dict[str, Any]]], Sequence[float]]
"""Scores the answers to one conversation."""
ScoreMany = Callable[[list[Messages], list[list[dict[str, Any]]]], Sequence[Sequence[float]]]
"""Scores the answers to each of several conversations."""


class ChatScorer(AnswerScorer):
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
    >>> import numpy as np
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

    _arguments = "(messages, answers)"

    def __init__(
        self,
        score: Score | ScoreMany,
        *,
        batched: bool = False,
        name: str | None = None,
        check_every: float = 0.0,
    ) -> None:
        super().__init__(score, batched, name, check_every)

    def _row(self, context: Any, answers: Any) -> Row:
        return (str(context), *map(str, answers))

    def _read(self, rows: list[Row]) -> tuple[list[Any], list[list[Any]]]:
        asked = [messages_of(str(row[0])) for row in rows]
        return asked, [[message_of(str(action)) for action in row[1:]] for row in rows]


class ScoreServer:
    """A server that scores answers: POST {"messages": …, "answers": […]} → {"scores": […]}.

    It is the batched function of a `ChatScorer`, or of a `CompletionScorer`, where "prompt" takes
    the place of "messages" and answers are texts. One that is unavailable, too slow or garbled is a
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
        self, asked: Sequence[Messages | str], answers: Sequence[Sequence[Any]]
    ) -> list[list[float]]:
        """Score the answers to several conversations or prompts."""
        bodies = [
            {"prompt" if isinstance(each, str) else "messages": each, "answers": list(given)}
            for each, given in zip(asked, answers, strict=True)
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
