"""Scorers of answers, which pick from a shortlist: checked, and named.

The scores of a row may depend on that row alone, and not on chance: a judge must be asked at
temperature 0, and a scorer that has changed is another policy with another name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from tether._core import validate
from tether._core.arrays import Floats
from tether._core.policy_calls import ERRORS_ABOUT_INPUT
from tether.llm.chat import read_answer, read_object
from tether.llm.client import Client, Connection, ServerError
from tether.llm.completions import PADDING, CompletionPolicy, decode_text


class ScorerError(ValueError):
    """A scorer cannot score these answers: this depends on them, so no policy acts instead."""


def is_scorer_error(error: BaseException | None) -> bool:
    """Whether an error, or one that caused it, is a `ScorerError`."""
    while error is not None and not isinstance(error, ScorerError):
        error = error.__cause__
    return error is not None


class ChatScorer:
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
        Seconds between a run's checks that a few old rows still have the same scores.

    Examples
    --------
    >>> import numpy as np
    >>> from tether.llm import ChatScorer, chat_action, chat_context
    >>> shorter = ChatScorer(lambda messages, answers: [-len(each["content"]) for each in answers])
    >>> contexts = np.array([chat_context({"messages": [{"role": "user", "content": "Hi"}]})])
    >>> shorter(contexts, np.array([[chat_action("Hello!"), chat_action("Hi")]]))
    array([[-6., -2.]])
    """

    def __init__(
        self,
        score: Callable[..., Any],
        *,
        batched: bool = False,
        name: str | None = None,
        check_every: float = 0.0,
    ) -> None:
        if not callable(score):
            raise TypeError(f"score must be a function of questions and answers, got {score!r:.60}")
        self._score, self._batched, self.name = score, bool(batched), name
        self.check_every = validate.number(
            "check_every", check_every, above=0.0, below=np.inf, including=(0.0,)
        )

    @property
    def fingerprint(self) -> str | None:
        """What tells this scorer from another one: its name."""
        return None if self.name is None else f"scorer {self.name}"

    def __call__(self, contexts: Any, candidates: Any) -> Floats:
        """Score every candidate of each row."""
        try:
            rows = [self._read(*each) for each in zip(contexts, candidates, strict=True)]
            if self._batched:
                made = list(self._score([asked for asked, _ in rows], [given for _, given in rows]))
            else:
                made = [self._score(*row) for row in rows]
            scores = [_as_scores(each) for each in made]
            for each, (_, given) in zip(scores, rows, strict=True):
                if each.shape != (len(given),) or not (each < np.inf).all():  # NaN fails this too
                    made_of = f"{each.tolist()!r:.80} for {len(given)} answers"
                    raise ValueError(f"{made_of}, not one number below inf per answer")
        except ERRORS_ABOUT_INPUT as error:
            raise ScorerError(f"these answers cannot be scored: {error!r:.200}") from error
        return np.array(scores)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name or self._score!r})"

    def _read(self, context: Any, answers: Any) -> tuple[Any, list[Any]]:
        """What the function is given for one row."""
        messages = read_object("context", str(context))["messages"]
        return messages, [read_answer(str(action))["message"] for action in answers]


class CompletionScorer(ChatScorer):
    """A score of texts as the optimized policy of a `Shortlist` of completions.

    For `CausalPolicy` and `OpenAIPolicy`, whose actions are token ids: the score sees texts. A
    reward model, a classifier or a judge is such a score; a tuned model needs none, as
    `Shortlist(safe, optimized)` picks by its log ratio.

    Parameters
    ----------
    score : callable
        A function of a prompt and its completions, all of them texts, which returns one score per
        completion; the higher, the better.
    policy : CausalPolicy or OpenAIPolicy
        The policy that draws the completions; its tokenizer turns them into texts.
    **options
        `batched`, `name` and `check_every` as for `ChatScorer`; a `ScoreServer` is batched.
    """

    def __init__(self, score: Callable[..., Any], policy: CompletionPolicy, **options: Any) -> None:
        super().__init__(score, **options)
        if policy.tokenizer is None:
            raise ValueError("policy has no tokenizer, which turns completions into texts")
        self._policy, self._tokenizer = policy, policy.tokenizer

    def _read(self, context: Any, answers: Any) -> tuple[Any, list[Any]]:
        if not isinstance(context, str):
            tokens = [int(token) for token in np.asarray(context) if token != PADDING]
            context = decode_text(self._tokenizer, tokens)
        return str(context), self._policy.texts(np.asarray(answers))


class ScoreServer:
    """A server that scores answers: POST {"messages": …, "answers": […]} → {"scores": […]}.

    It is the batched function of a `ChatScorer`, or of a `CompletionScorer`, where "prompt" takes
    the place of "messages" and answers are texts. If it is unavailable, too slow or garbled, that
    is a `ServerError`, for which a run lets the safe policy act. If it refuses its input (status
    400, 413 or 422), that is an error, as it depends on the answers. The arguments are the URL that
    requests are sent to, and the `connection` of a `ChatPolicy` (by default 5 s, 1 retry).

    Examples
    --------
    >>> from tether.llm import ChatScorer, ScoreServer
    >>> scorer = ChatScorer(ScoreServer("http://localhost:9000/score"), batched=True, name="v1")
    """

    def __init__(self, url: str, **connection: Unpack[Connection]) -> None:
        base, _, self._path = url.rstrip("/").rpartition("/")
        limits: Connection = {"timeout": 5.0, "retries": 1}
        self.client = Client(base, **(limits | connection))

    def __call__(self, asked: Sequence[Any], answers: Sequence[Sequence[Any]]) -> list[list[float]]:
        """Score the answers to several conversations or prompts; nothing is remembered."""
        bodies = [
            {"prompt" if isinstance(each, str) else "messages": each, "answers": list(given)}
            for each, given in zip(asked, answers, strict=True)
        ]
        made = self.client.post_all([(self._path, each) for each in bodies], doing="scoring")
        return [_read_scores(each, len(given)) for each, given in zip(made, answers, strict=True)]

    def __repr__(self) -> str:
        return f"ScoreServer({f'{self.client.base_url}/{self._path}'!r})"


def _read_scores(response: dict[str, Any], count: int) -> list[float]:
    scores: Any = response.get("scores")
    are_numbers = isinstance(scores, list) and all(type(each) in (int, float) for each in scores)
    if not are_numbers or len(scores) != count:
        raise ServerError(f"the scorer returned {scores!r:.80} as scores, not {count} numbers")
    return [float(each) for each in scores]


def _as_scores(scores: Any) -> Floats:
    """Scores as numbers; a torch tensor, of any dtype and device, is read too."""
    if hasattr(scores, "detach"):
        scores = scores.detach().double().cpu().numpy()
    return np.asarray(scores, dtype=np.float64)
