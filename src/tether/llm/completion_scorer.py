"""Scores of completions as texts, as what picks from a shortlist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tether.llm.answer_scorer import AnswerScorer, Row
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import PADDING, decode_text

TextScore = Callable[[str, list[str]], Sequence[float]]
"""Scores the completions of one prompt."""
TextScoreMany = Callable[[list[str], list[list[str]]], Sequence[Sequence[float]]]
"""Scores the completions of each of several prompts."""


class CompletionScorer(AnswerScorer):
    """A score of texts as the optimized policy of a `Shortlist` of completions.

    For `CausalPolicy` and `OpenAIPolicy`, whose actions are token ids: the score has texts. A
    reward model, a classifier or a judge is such a score; a tuned model needs none, as
    `Shortlist(safe, optimized)` picks by its log ratio.

    The scores of a row may depend on that row alone, and not on chance: a judge must be asked at
    temperature 0, and a scorer that has changed is another policy with another name.

    Parameters
    ----------
    score : callable
        A function of a prompt and the completions of it, all of them texts, which returns one score
        per completion; the higher, the better.
    policy : CausalPolicy or OpenAIPolicy
        The policy that draws the completions; its tokenizer turns them into texts.
    batched : bool, default False
        Whether it is a function of a list of prompts and a list of their completions instead, and
        returns a list of scores for each; a `ScoreServer` is one.
    name : str, optional
        The name of this very scorer, by which a run recognizes it after a restart.
    check_every : float, default 0.0
        A run asks for the scores of a few old rows in every call, to see that the scorer has not
        changed; with 60 only once a minute.

    Raises
    ------
    ValueError
        If the policy has no tokenizer.

    Examples
    --------
    >>> def polite(prompt, texts):
    ...     return [float("please" in text.lower()) for text in texts]
    >>> shortlist = tether.Shortlist(safe, CompletionScorer(polite, safe))  # doctest: +SKIP
    """

    _arguments = "(prompt, texts)"

    def __init__(
        self,
        score: TextScore | TextScoreMany,
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
