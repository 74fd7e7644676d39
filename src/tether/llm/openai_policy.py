"""A model behind an OpenAI-compatible completions server as a policy.

Any response that has fields of other types than vLLM's, or is not about the tokens that were sent,
is an error.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Unpack

import numpy as np
from pydantic import AfterValidator, BaseModel

from tether._core import validate
from tether._core.arrays import Actions, Contexts, Floats
from tether.llm.client import Client, Connection, Request, draw_by_requests
from tether.llm.completions import (
    CompletionPolicy,
    Prompt,
    Tokenizer,
    Tokens,
    as_end_token_ids,
    pad_rows,
)

NEUTRAL_SAMPLING: dict[str, Any] = {
    **{"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "watermarking": False},
}
"""Every setting that changes what a server samples, switched off explicitly in each request.

Where a request omits a setting, vLLM takes it from the model's `generation_config`. Started with
watermarking, it marks what it generates, so that all draws of one prompt are the same.
"""
MAX_COMPLETION_SEED = 2**62
"""Seeds are smaller than this: vLLM adds the number of a completion, which must fit 63 bits."""
TABLE_TOKENS = 20
"""How many of the likeliest tokens a table has: what servers give by default."""
ROWS_PER_REQUEST = 16
"""The number of completions that are scored per request."""
ZERO_PROBABILITY = -9999.0
"""What vLLM writes for a log-probability of −inf, which JSON lacks."""
ROUNDING_TOLERANCE = 1e-3
"""How far above zero a log-probability may be: 16-bit logits round."""
PROBE_TOLERANCE = 0.05
"""Nats per row that rounding may change a score by, as in preflight."""
PROBE_ROWS = [((3, 5, 4), (7, 6, 9, 8)), ((11, 10, 13), (12, 15, 14, 5)), ((4, 9), (3, 14, 7, 10))]
"""Prompts and continuations of small token ids, which every vocabulary has."""


class LikelyTokens(NamedTuple):
    """A token of a completion, and the likeliest tokens at its place."""

    token: int
    likely: list[int]
    log_probs: Floats


def _as_log_prob(value: float) -> float:
    if value > ROUNDING_TOLERANCE:
        raise ValueError("a log-probability above 0 (vLLM's logprobs-mode raw_logits?)")
    return -np.inf if value <= ZERO_PROBABILITY else min(value, 0.0)


_LogProb: TypeAlias = Annotated[float, AfterValidator(_as_log_prob)]


class _Strict(BaseModel, strict=True, allow_inf_nan=False):
    """What is read from a response."""


class _Entry(_Strict):
    logprob: _LogProb


class _Stated(_Strict):
    token_logprobs: list[_LogProb | None] | None = None


class _Choice(_Strict):
    index: int
    finish_reason: Literal["stop", "length"]
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: _Stated | None = None
    prompt_logprobs: list[dict[str, _Entry] | None] | None = None


class _Response(_Strict):
    choices: list[_Choice]


class OpenAIPolicy(CompletionPolicy):
    """A language model on a server as a policy; contexts and actions as in `CausalPolicy`.

    The server must accept token ids as prompts, return token ids (`return_token_ids`) and score a
    given text (`prompt_logprobs`), as vLLM does. A LoRA that it serves beside its base model is a
    policy of its own, named by `model`. Completions of the same prompt share a request, which
    reads the prompt once; each request has its own seed from the generator. Draws and scores are at
    temperature 1, because a server scores a given text without temperature. A server can load
    another model under the same name without an error, so the scores of a few fixed rows are
    compared with the first ones from time to time.

    Parameters
    ----------
    base_url, model : str
        The address of the server up to the version, and the name of the model on it.
    eos_token_id : int or sequence of int
        The end-of-sequence tokens.
    tokenizer : Tokenizer or None, optional
        The tokenizer of the model; None if prompts are token ids and texts are not needed.
    max_new_tokens : int, default 64
        The largest number of tokens of a completion.
    probe_seconds : float or None, default 60.0
        How old the last `check_unchanged` may be when the policy is used; None never checks.
    max_n : int, default 64
        The most completions of a prompt that a request asks for. 1 for a server that draws all
        completions of a request with one seed; vLLM takes a different seed for each of them.
    add_special_tokens : bool, default False
        Whether the tokenizer adds its special tokens to prompts that are texts.
    **connection
        `api_key`, which is never shown; `timeout`, the seconds that a response may take (120);
        `retries`, how many times a failed request is sent again (4; fewer where another policy is
        to answer instead); `concurrency`, requests at a time (32).

    Examples
    --------
    >>> from tether.llm import OpenAIPolicy
    >>> OpenAIPolicy("http://localhost:8000/v1", "base", eos_token_id=2, max_new_tokens=48)
    OpenAIPolicy('http://localhost:8000/v1', 'base', max_new_tokens=48)
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        eos_token_id: int | Sequence[int],
        tokenizer: Tokenizer | None = None,
        max_new_tokens: int = 64,
        probe_seconds: float | None = 60.0,
        max_n: int = 64,
        add_special_tokens: bool = False,
        **connection: Unpack[Connection],
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_new_tokens = validate.integer("max_new_tokens", max_new_tokens)
        self.end_token_ids = as_end_token_ids(eos_token_id)
        self.add_special_tokens = bool(add_special_tokens)
        self.max_n = validate.integer("max_n", max_n)
        if probe_seconds is not None:
            validate.number("probe_seconds", probe_seconds, above=0, below=np.inf, including=(0,))
        self.probe_seconds = probe_seconds
        self.client = Client(base_url, **connection)
        self._probed: Floats | None = None  # the first scores of the rows for comparison
        self._probed_at = -np.inf

    @property
    def fingerprint(self) -> str:
        """What tells this policy from another one: the model's name and settings, no address."""
        settings = f"{self.max_new_tokens} {self.end_token_ids.tolist()} {self.add_special_tokens}"
        return f"openai {self.model} {settings}"

    def check_unchanged(self) -> None:
        """Refuse a server that serves another model than when this policy was first used.

        This also happens by itself when the policy is used and the last comparison is older than
        `probe_seconds`.
        """
        scores = self._score(PROBE_ROWS)
        now = np.array([scores[row] for row in PROBE_ROWS])
        first = now if self._probed is None else self._probed
        self._probed, self._probed_at = first, time.monotonic()
        with np.errstate(invalid="ignore"):
            moved = float(np.where(first == now, 0.0, np.abs(now - first)).max())
        if not moved <= PROBE_TOLERANCE:
            raise ValueError(
                f"the server no longer serves the model that was {self.model!r}: scores of fixed "
                f"rows moved by up to {moved:.3g} nats. Make a new policy, with a name of its own"
            )

    def sample_scored(self, contexts: Contexts, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Draw one completion per prompt, with the log-probabilities that the server states.

        A ServerError says that the server is unavailable or refuses the sender, a ValueError that a
        prompt is refused or a response is not about the tokens that were sent.
        """
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        self._check_if_due()

        def body(prompt: Prompt, count: int) -> Request:
            ends, seed = self.end_token_ids.tolist(), int(rng.integers(MAX_COMPLETION_SEED))
            own = {"seed": seed, "stop_token_ids": ends, "logprobs": 0}
            return self._request(list(prompt), self.max_new_tokens, n=count, **own)

        def read(prompt: Prompt, answer: dict[str, Any], count: int) -> list[Any]:
            choices = _read_choices(answer, count)
            return [(self._read_tokens(each, prompt), _stated_log_prob(each)) for each in choices]

        drawn = draw_by_requests(self, prompts, body, read, f"drawing from {self.model!r}")
        rows, scores = [row for row, _ in drawn], np.array([score for _, score in drawn])
        return pad_rows(rows, self.max_new_tokens), scores

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion: the sum of the log-probabilities of its tokens."""
        pairs = self._pairs(contexts, actions)
        self._check_if_due()
        scores = self._score(list(set(pairs)))
        return np.array([scores[pair] for pair in pairs])

    def likely_tokens(self, contexts: Contexts, actions: Actions) -> list[LikelyTokens]:
        """Ask for the likeliest tokens at every token; a ValueError if they are not stated."""
        pairs = self._pairs(contexts, actions)
        requests = [self._scoring([(*prompt, *row)], TABLE_TOKENS) for prompt, row in pairs]
        answers = self.client.post_all(requests, doing="reading likely tokens")
        found = []
        for pair, answer in zip(pairs, answers, strict=True):
            entries = _completion_entries(_read_choices(answer, 1)[0], *pair)
            for token, entry in zip(pair[1], entries, strict=True):
                listed = [(int(each), entry[each].logprob) for each in entry]
                # A server adds the token of the row where it is not among the likeliest: it is left
                # out here, so that a table does not depend on the token.
                listed.sort(key=lambda each: (-each[1], each[0] == token))
                if len(listed) < TABLE_TOKENS:
                    raise ValueError(f"{len(listed)} likely tokens instead of {TABLE_TOKENS}")
                likely, log_probs = zip(*listed[:TABLE_TOKENS], strict=True)
                found.append(LikelyTokens(token, list(likely), np.array(log_probs)))
        return found

    def __repr__(self) -> str:
        own = f"{self.client.base_url!r}, {self.model!r}, max_new_tokens={self.max_new_tokens}"
        return f"OpenAIPolicy({own})"

    def _check_if_due(self) -> None:
        age = time.monotonic() - self._probed_at
        if self.probe_seconds is not None and age > self.probe_seconds:
            self.check_unchanged()

    def _pairs(self, contexts: Contexts, actions: Actions) -> list[tuple[Prompt, Prompt]]:
        """Prompts and completions as token ids."""
        rows = zip(*self._tokenized(contexts, actions), strict=True)
        return [(prompt, tuple(map(int, row[:length]))) for prompt, row, length in rows]

    def _request(self, prompt: list[Any], tokens: int, n: int = 1, **more: Any) -> Request:
        body = {"model": self.model, "prompt": prompt, "max_tokens": tokens, "n": n}
        return "completions", {**body, "return_token_ids": True, **NEUTRAL_SAMPLING, **more}

    def _scoring(self, rows: Sequence[Prompt], likely: int = 0) -> Request:
        """The request that scores texts; the one token that it generates is not read."""
        return self._request([list(row) for row in rows], 1, prompt_logprobs=likely)

    def _score(self, pairs: Sequence[tuple[Prompt, Prompt]]) -> dict[tuple[Prompt, Prompt], float]:
        """Scores of prompts with completions by the server; those of similar length together."""
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
        size = ROWS_PER_REQUEST
        batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        requests = [self._scoring([(*prompt, *row) for prompt, row in each]) for each in batches]
        answers = self.client.post_all(requests, doing=f"scoring by {self.model!r}")
        scores: dict[tuple[Prompt, Prompt], float] = {}
        for batch, answer in zip(batches, answers, strict=True):
            for pair, choice in zip(batch, _read_choices(answer, len(batch)), strict=True):
                entries = zip(_completion_entries(choice, *pair), pair[1], strict=True)
                scores[pair] = sum(entry[str(token)].logprob for entry, token in entries)
        return scores

    def _read_tokens(self, choice: _Choice, prompt: Prompt) -> list[int]:
        """The tokens of one completion, after every check that can be made."""
        _check_prompt(choice, prompt)
        tokens, most = choice.token_ids, self.max_new_tokens
        if not tokens:
            raise ValueError("the server returned no token ids: it must support return_token_ids")
        if len(tokens) > most or (len(tokens) < most and tokens[-1] not in self.end_token_ids):
            raise ValueError(
                f"the server stopped after {len(tokens)} of {most} tokens at token {tokens[-1]}, "
                "not in eos_token_id: it has a limit or stops of its own, or its context is full"
            )
        self.checked(pad_rows([tokens], most))
        return tokens


def _read_choices(response: dict[str, Any], count: int) -> list[_Choice]:
    """One choice per prompt, in the order of the prompts."""
    try:
        choices = _Response.model_validate(response).choices
    except ValueError as error:
        raise ValueError(f"the server's response cannot be read: {error}") from None
    if sorted(choice.index for choice in choices) != list(range(count)):
        raise ValueError(f"the server's {len(choices)} choice(s) are not numbered 0 to {count - 1}")
    return sorted(choices, key=lambda choice: choice.index)


def _completion_entries(choice: _Choice, prompt: Prompt, row: Prompt) -> list[dict[str, _Entry]]:
    """What a server states of each token of a completion, with an entry for that very token."""
    sent = (*prompt, *row)
    _check_prompt(choice, sent)
    entries = choice.prompt_logprobs or []
    if len(entries) != len(sent):
        raise ValueError(
            f"the server returned {len(entries)} log-probabilities of a text of {len(sent)} "
            f"tokens: it must support prompt_logprobs"
        )
    stated = [entry or {} for entry in entries[len(prompt) :]]
    for token, entry in zip(row, stated, strict=True):
        if str(token) not in entry:
            raise ValueError(
                f"the server returned log-probabilities of other token ids than were sent: of "
                f"{sorted(entry)!r:.80}, but {token} was sent"
            )
    return stated


def _check_prompt(choice: _Choice, sent: Sequence[int]) -> None:
    """Refuse a choice about other tokens than were sent, where the server says which it read."""
    if choice.prompt_token_ids not in (None, list(sent)):
        raise ValueError(
            f"the server read other token ids than were sent: {choice.prompt_token_ids!r:.80}, "
            f"but {list(sent)!r:.80} were sent"
        )


def _stated_log_prob(choice: _Choice) -> float:
    """The log-probability stated for generated tokens; NaN where it is not stated in full."""
    scores = choice.logprobs.token_logprobs if choice.logprobs is not None else None
    if not scores or len(scores) != len(choice.token_ids or ()) or None in scores:
        return float("nan")
    return sum(score for score in scores if score is not None)
