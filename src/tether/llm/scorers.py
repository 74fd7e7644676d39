"""Scores of answers as what picks from a shortlist: each row once, checked, and named.

The scores of a row may depend on that row alone, and not on chance: a judge must be asked at
temperature 0, and a scorer that has changed is another policy with another name.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats
from tether._core.policy_calls import ERRORS_ABOUT_INPUT
from tether.llm.chat import message_of, messages_of
from tether.llm.client import Client, ServerError
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import PADDING, decode_text

Row = tuple[Hashable, ...]  # a context and the answers to it, in a form that can be compared


class AnswerScorer(ABC):
    """The common part of scorers; one says how it reads contexts and answers."""

    _arguments = "(context, answers)"

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

    @abstractmethod
    def _row(self, context: Any, answers: Any) -> Row: ...

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
        """Whether to see now that old rows have their scores, by time alone; then not a while."""
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
            right = isinstance(each, list) and len(each) == len(row) - 1
            if not right or not all(score < np.inf for score in each):  # NaN fails this too
                raise ValueError(
                    f"the scorer returned {each!r:.80} for {len(row) - 1} answers, expected one "
                    f"score per answer, below inf"
                )
        return scores


class CompletionScorer(AnswerScorer):
    """A score of texts as the optimized policy of a `Shortlist` of completions.

    For `CausalPolicy` and `OpenAIPolicy`, whose actions are token ids: the score has texts. A
    reward model, a classifier or a judge is such a score; a tuned model needs none, as
    `Shortlist(safe, optimized)` picks by its log ratio.

    Parameters
    ----------
    score : callable
        A function of a prompt and the completions of it, all of them texts, which returns one score
        per completion; the higher, the better.
    policy : CausalPolicy or OpenAIPolicy
        The policy that draws the completions; its tokenizer turns them into texts.
    batched, name, check_every
        As for `ChatScorer`; a `ScoreServer` is batched.
    """

    _arguments = "(prompt, texts)"

    def __init__(
        self,
        score: Callable[..., Any],
        policy: CompletionPolicy,
        *,
        batched: bool = False,
        name: str | None = None,
        check_every: float = 0.0,
    ) -> None:
        super().__init__(score, batched, name, check_every)
        if policy.tokenizer is None:
            raise ValueError("policy has no tokenizer, which turns completions into texts")
        self._policy, self._tokenizer = policy, policy.tokenizer

    def _row(self, context: Any, answers: Any) -> Row:
        if not isinstance(context, str):
            tokens = [int(token) for token in np.asarray(context) if token != PADDING]
            context = decode_text(self._tokenizer, tokens)
        return (str(context), *(tuple(map(int, answer)) for answer in answers))

    def _read(self, rows: list[Row]) -> tuple[list[Any], list[list[Any]]]:
        answers = [self._policy.texts(np.array(row[1:])) for row in rows]
        return [row[0] for row in rows], answers


class ChatScorer(AnswerScorer):
    """A score of chat answers as the optimized policy of a `Shortlist` of a `ChatPolicy`.

    Parameters
    ----------
    score : callable
        A function of the messages of a request and the messages that answer it, which returns one
        score per answer; the higher, the better.
    batched : bool, default False
        Whether it is a function of lists of conversations and of their answers instead.
    name : str, optional
        The name of this very scorer, by which a run recognizes it after a restart.
    check_every : float, default 0.0
        Seconds between two checks of a run that a few old rows still have their scores.

    Examples
    --------
    >>> import numpy as np
    >>> from tether.llm import ChatScorer, chat_action, chat_context
    >>> shorter = ChatScorer(lambda messages, answers: [-len(each["content"]) for each in answers])
    >>> contexts = np.array([chat_context({"messages": [{"role": "user", "content": "Hi"}]})])
    >>> shorter(contexts, np.array([[chat_action("Hello!"), chat_action("Hi")]]))
    array([[-6., -2.]])
    """

    _arguments = "(messages, answers)"

    def __init__(
        self,
        score: Callable[..., Any],
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
    413 or 422) is an error, since that depends on the answers. Its arguments are the URL that
    requests are sent to, and the key and limits as for `ChatPolicy`.

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
        self.client = Client(
            base, api_key, timeout=timeout, retries=retries, concurrency=concurrency
        )

    def __call__(self, asked: Sequence[Any], answers: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Score the answers to several conversations or prompts; nothing is remembered."""
        bodies = [
            {"prompt" if isinstance(each, str) else "messages": each, "answers": list(given)}
            for each, given in zip(asked, answers, strict=True)
        ]
        made = self.client.post_all(self._path, bodies, doing="scoring answers")
        return [_read_scores(each, len(given)) for each, given in zip(made, answers, strict=True)]

    def __repr__(self) -> str:
        return f"ScoreServer({f'{self.client.base_url}/{self._path}'!r})"


class ScorerError(ValueError):
    """A scorer that cannot score these answers: that depends on them, so nobody acts instead."""


def is_scorer_error(error: BaseException | None) -> bool:
    """Whether an error, or one that it comes from, is that of a scorer."""
    while error is not None and not isinstance(error, ScorerError):
        error = error.__cause__
    return error is not None


def _read_scores(response: dict[str, Any], count: int) -> list[float]:
    scores = response.get("scores")
    if not isinstance(scores, list) or len(scores) != count:
        found = f"{len(scores)} values" if isinstance(scores, list) else type(scores).__name__
        raise ServerError(f"the scorer returned {found} as scores, not {count} numbers")
    if not all(type(each) in (int, float) for each in scores):
        raise ServerError(f"the scorer returned scores that are not all numbers: {scores!r:.80}")
    return [float(each) for each in scores]


def _as_array(scores: Any) -> Floats:
    """Scores as numbers; a torch tensor, of any dtype and device, is read too."""
    if hasattr(scores, "detach"):
        scores = scores.detach().double().cpu().numpy()
    return np.asarray(scores, dtype=np.float64)
