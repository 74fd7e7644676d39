"""A model behind an OpenAI-compatible completions server as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import ClassVar, Self

import numpy as np

from tether._core import validate
from tether._core.types import Actions, Contexts, Floats
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import (
    Tokenizer,
    Tokens,
    as_end_token_ids,
    pad_rows,
)
from tether.llm.prompts import Prompt
from tether.llm.server import responses
from tether.llm.server.completion_draws import draw_completions
from tether.llm.server.completion_requests import score_request
from tether.llm.server.drawn_scores import DrawnScores
from tether.llm.server.http_client import HTTPClient
from tether.llm.server.likely_tokens import likely_tokens
from tether.llm.server.probe_scores import PROBE_ROWS, ProbeScores
from tether.llm.token_tables import TokenTables


class OpenAIPolicy(CompletionPolicy):
    """A language model on a server as a policy; contexts and actions as in `CausalPolicy`.

    The server must accept token ids as prompts, return token ids (`return_token_ids`) and score a
    given text (`prompt_logprobs`), as vLLM does. A LoRA that it serves beside its base model is a
    policy of its own, by its name in `model`. Completions of the same prompt share a request, which
    reads the prompt once; each request has its own seed from the generator. Any response that is
    not about the tokens that were sent is an error.

    Parameters
    ----------
    base_url : str
        The address of the server up to the version, such as ``'http://localhost:8000/v1'``.
    model : str
        The name of the model on the server.
    eos_token_id : int or sequence of int
        The end-of-sequence tokens.
    tokenizer : Tokenizer or None, optional
        The tokenizer of the model; None if prompts are token ids and texts are not needed.
    max_new_tokens : int, default 64
        The largest number of tokens of a completion.
    temperature : float, default 1.0
        Must be 1: servers score a given text without temperature, so draws at any other
        temperature would have the scores of another distribution.
    api_key : str or None, optional
        The key that is sent in the Authorization header. It is never shown.
    timeout : float, default 120.0
        Seconds after which an attempt to send a request counts as failed.
    deadline : float, default 300.0
        Seconds after which a request that keeps failing is given up. Where another policy is to
        answer instead, as in serving, choose a few seconds.
    retries : int or None, optional
        How many times at most a failed request is sent again; None for as often as the deadline
        allows.
    concurrency : int or None, optional
        How many requests are under way at a time; None for as many as the server gains from.
    reuse_stated : bool, default True
        Whether the log-probabilities that the server states with a draw are its score, so that it
        is not scored a second time. `preflight` compares both.
    probe_seconds : float or None, default 60.0
        How old the last `check_unchanged` may be when the policy is used; None never checks.
    batch_size : int, default 16
        The number of completions that are scored per request.
    max_n : int, default 64
        The most completions of a prompt that a request asks for. 1 for a server that draws all
        completions of a request with one seed; vLLM takes a different seed for each of them.
    context_length : int or None, optional
        The context length of the model; None leaves it to the server to refuse prompts too long.
    add_special_tokens : bool, default False
        Whether the tokenizer adds its special tokens to prompts that are texts.

    Raises
    ------
    ValueError
        If a setting is out of range, or `base_url` contains a secret.

    Examples
    --------
    >>> from tether.llm import OpenAIPolicy
    >>> OpenAIPolicy("http://localhost:8000/v1", "base", eos_token_id=2, max_new_tokens=48)
    OpenAIPolicy('http://localhost:8000/v1', 'base', max_new_tokens=48)
    """

    is_served: ClassVar[bool] = True
    # A request that scores a completion generates one token more, which must fit as well.
    _tokens_beyond_completion: ClassVar[int] = 1

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        eos_token_id: int | Sequence[int],
        tokenizer: Tokenizer | None = None,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        api_key: str | None = None,
        timeout: float = 120.0,
        deadline: float = 300.0,
        retries: int | None = None,
        concurrency: int | None = None,
        reuse_stated: bool = True,
        probe_seconds: float | None = 60.0,
        batch_size: int = 16,
        max_n: int = 64,
        context_length: int | None = None,
        add_special_tokens: bool = False,
    ) -> None:
        if temperature != 1.0:
            raise ValueError(
                f"temperature must be 1.0, got {temperature!r}: a server scores a given text "
                f"without temperature, so the scores would not be those of the draws"
            )
        self.model, self.tokenizer = model, tokenizer
        self.max_new_tokens = validate.integer_at_least("max_new_tokens", max_new_tokens)
        self.end_token_ids = as_end_token_ids(eos_token_id)
        self.context_length = context_length
        self.add_special_tokens = bool(add_special_tokens)
        self.batch_size = validate.integer_at_least("batch_size", batch_size)
        self.max_n = validate.integer_at_least("max_n", max_n)
        self.ignores_n = False  # until a response has fewer completions than were asked for
        if probe_seconds is not None:
            validate.number("probe_seconds", probe_seconds, above=0, below=np.inf, including=(0,))
        self.client = HTTPClient(
            base_url,
            api_key,
            timeout=timeout,
            deadline=deadline,
            retries=retries,
            concurrency=concurrency,
        )
        self.address = self.client.base_url
        self._drawn = DrawnScores() if reuse_stated else None
        self.probe_seconds = probe_seconds
        self._probes = ProbeScores(model, probe_seconds)

    def check_unchanged(self) -> None:
        """Check that the server still serves the model that this policy was first used with.

        The scores of a few fixed rows are compared. This also happens by itself when the policy is
        used and the last comparison is older than `probe_seconds`.

        Raises
        ------
        ServerError
            If the server is unavailable or refuses the sender.
        ValueError
            If it serves another model under this name.
        """
        self._probes.compare(self._score_probes)

    def rescoring(self) -> Self:
        """Return this policy as one whose draws are all scored by the server again.

        Returns
        -------
        OpenAIPolicy
            A copy that shares the connections.
        """
        other = copy(self)
        other._drawn = None
        return other

    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities that the server states.

        They are for comparison, and NaN where the server states none: the score of a completion is
        what `log_prob` returns. `rng` is the source of the seeds, one per request. A ServerError
        says that the server is unavailable or refuses the sender, a ValueError that a prompt is
        refused or a response is not about the tokens that were sent.
        """
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        self._probes.compare_if_due(self._score_probes)
        drawn = draw_completions(self, prompts, rng)
        rows, scores = [each.tokens for each in drawn], [each.log_prob for each in drawn]
        if self._drawn is not None:
            self._drawn.remember(zip(prompts, map(tuple, rows), scores, strict=True))
        return pad_rows(rows, self.max_new_tokens), np.array(scores)

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion: the sum of the log-probabilities of its tokens.

        A ServerError says that the server is unavailable or refuses the sender, a ValueError that a
        row is not a completion or a response is not about the tokens that were sent.
        """
        pairs = self._pairs(contexts, actions)
        self._probes.compare_if_due(self._score_probes)
        scores: dict[tuple[Prompt, Prompt], float] = {}
        for pair in set(pairs):
            known = None if self._drawn is None else self._drawn.find(*pair)
            if known is not None:
                scores[pair] = known
        scores |= self._score({pair for pair in pairs if pair not in scores})
        return np.array([scores[pair] for pair in pairs])

    def token_tables(self, contexts: Contexts, actions: Actions) -> TokenTables:
        """Ask for the likeliest tokens at every position of completions.

        A ServerError says that the server is unavailable or refuses the sender, a ValueError that
        it does not state likely tokens.
        """
        rows = self._pairs(contexts, actions)
        requests = [score_request(self.model, [(*prompt, *tokens)]) for prompt, tokens in rows]
        return likely_tokens(self.client, requests, rows)

    def _pairs(self, contexts: Contexts, actions: Actions) -> list[tuple[Prompt, Prompt]]:
        """Prompts and completions as token ids."""
        prompts, completions, lengths = self._tokenized(contexts, actions)
        return [
            (tuple(prompt), tuple(map(int, completion[:length])))
            for prompt, completion, length in zip(prompts, completions, lengths, strict=True)
        ]

    def _score(
        self, pairs: set[tuple[Prompt, Prompt]], *, fresh: bool = False
    ) -> dict[tuple[Prompt, Prompt], float]:
        """Scores of prompts with completions by the server; those of similar length together."""
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
        size = self.batch_size
        batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        requests = [score_request(self.model, [(*p, *c) for p, c in batch]) for batch in batches]
        doing = f"scoring under {self.model!r}"
        answers = self.client.post_all("completions", requests, fresh=fresh, doing=doing)
        scores: dict[tuple[Prompt, Prompt], float] = {}
        for batch, answer in zip(batches, answers, strict=True):
            choices = responses.read_choices(answer, len(batch))
            for (prompt, completion), choice in zip(batch, choices, strict=True):
                each = responses.read_prompt_log_probs(choice, (*prompt, *completion))
                scores[prompt, completion] = sum(each[len(prompt) - 1 :])
        return scores

    def _score_probes(self) -> Floats:
        scores = self._score(set(PROBE_ROWS), fresh=True)
        return np.array([scores[row] for row in PROBE_ROWS])

    def __repr__(self) -> str:
        return (
            f"OpenAIPolicy({self.client.base_url!r}, {self.model!r}, "
            f"max_new_tokens={self.max_new_tokens})"
        )
