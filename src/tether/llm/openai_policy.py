"""A model behind an OpenAI-compatible completions server as a policy.

A field of a response of another type than OpenAI's or vLLM's is never read as if it were of theirs,
and any response that is not about the tokens that were sent is an error.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from tether._core import validate
from tether._core.types import Actions, Contexts, Floats
from tether.llm.client import Client, count_draws
from tether.llm.completion_policy import CompletionPolicy
from tether.llm.completions import (
    TABLE_TOKENS,
    Prompt,
    Tokenizer,
    Tokens,
    TokenTables,
    as_end_token_ids,
    check_completions,
    pad_rows,
)

NEUTRAL_SAMPLING: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "watermarking": False,
}
"""Every setting that changes what a server samples, switched off explicitly in each request.

vLLM takes settings that a request omits from the model's `generation_config`, and watermarks what
it generates if it was started to: then tokens follow from its key and not from the seed, so that
all draws of one prompt are the same.
"""
MAX_COMPLETION_SEED = 2**62
"""Seeds are smaller than this: vLLM adds the number of a completion, which must fit 63 bits."""
MAX_COMPLETIONS = 64
"""The most completions of a prompt that a request asks for."""
ROWS_PER_REQUEST = 16
"""The number of completions that are scored per request."""
MAX_DRAWN_SCORES = 100_000
"""How many draws are remembered with their scores; older ones are scored by the server again."""
LOG_IMPOSSIBLE = -27.6
"""Completions of one request that agree with a log-probability below this (1e-12) are no chance."""
ZERO_PROBABILITY = -9999.0
"""What vLLM writes for a log-probability of −inf, which JSON lacks."""
ROUNDING_TOLERANCE = 1e-3
"""How far above zero a log-probability may be: 16-bit logits round."""
PROBE_TOLERANCE = 0.05
"""Nats per row that rounding may change a score by, as in preflight."""
PROBE_ROWS: tuple[tuple[Prompt, Prompt], ...] = (
    ((3, 5, 4), (7, 6, 9, 8)),
    ((11, 10, 13), (12, 15, 14, 5)),
    ((4, 9, 6), (3, 14, 7, 10)),
    ((8, 12), (4, 11, 6, 13)),
)
"""Prompts and continuations of small token ids, which every vocabulary has."""


class OpenAIPolicy(CompletionPolicy):
    """A language model on a server as a policy; contexts and actions as in `CausalPolicy`.

    The server must accept token ids as prompts, return token ids (`return_token_ids`) and score a
    given text (`prompt_logprobs`), as vLLM does. A LoRA that it serves beside its base model is a
    policy of its own, by its name in `model`. Completions of the same prompt share a request, which
    reads the prompt once; each request has its own seed from the generator. Draws and scores are at
    temperature 1, because a server scores a given text without temperature.

    A server can load another model under the same name without an error. So the scores of a few
    fixed rows are compared with the first ones from time to time.

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
    api_key : str or None, optional
        The key that is sent in the Authorization header. It is never shown.
    timeout : float, default 120.0
        The seconds that a response may take.
    retries : int, default 4
        How many times a failed request is sent again. Where another policy is to answer instead,
        as in serving, choose 0 or 1.
    concurrency : int, default 32
        How many requests are under way at a time.
    probe_seconds : float or None, default 60.0
        How old the last `check_unchanged` may be when the policy is used; None never checks.
    max_n : int, default 64
        The most completions of a prompt that a request asks for. 1 for a server that draws all
        completions of a request with one seed; vLLM takes a different seed for each of them.
    context_length : int or None, optional
        The context length of the model; None leaves it to the server to refuse prompts too long.
    add_special_tokens : bool, default False
        Whether the tokenizer adds its special tokens to prompts that are texts.

    Examples
    --------
    >>> from tether.llm import OpenAIPolicy
    >>> OpenAIPolicy("http://localhost:8000/v1", "base", eos_token_id=2, max_new_tokens=48)
    OpenAIPolicy('http://localhost:8000/v1', 'base', max_new_tokens=48)
    """

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
        api_key: str | None = None,
        timeout: float = 120.0,
        retries: int = 4,
        concurrency: int = 32,
        probe_seconds: float | None = 60.0,
        max_n: int = MAX_COMPLETIONS,
        context_length: int | None = None,
        add_special_tokens: bool = False,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_new_tokens = validate.integer_at_least("max_new_tokens", max_new_tokens)
        self.end_token_ids = as_end_token_ids(eos_token_id)
        self.context_length = context_length
        self.add_special_tokens = bool(add_special_tokens)
        self.max_n = validate.integer_at_least("max_n", max_n)
        if probe_seconds is not None:
            validate.number("probe_seconds", probe_seconds, above=0, below=np.inf, including=(0,))
        self.probe_seconds = probe_seconds
        self.client = Client(
            base_url, api_key, timeout=timeout, retries=retries, concurrency=concurrency
        )
        self.address = self.client.base_url
        self._drawn: dict[tuple[Prompt, Prompt], float] | None = {}
        self._probe: dict[str, Any] = {"scores": None, "time": -np.inf}  # shared by copies

    @property
    def fingerprint(self) -> str:
        """What tells this policy from another one: the model's name and settings, no address."""
        settings = f"{self.max_new_tokens} {self.end_token_ids.tolist()} {self.add_special_tokens}"
        return f"openai {self.model} {settings}"

    def check_unchanged(self) -> None:
        """Check that the server still serves the model that this policy was first used with.

        This also happens by itself when the policy is used and the last comparison is older than
        `probe_seconds`.

        Raises
        ------
        ServerError
            If the server is unavailable or refuses the sender.
        ValueError
            If it serves another model under this name.
        """
        scores = self._score(list(PROBE_ROWS))
        now = np.array([scores[row] for row in PROBE_ROWS])
        first = now if self._probe["scores"] is None else self._probe["scores"]
        self._probe.update(scores=first, time=time.monotonic())
        with np.errstate(invalid="ignore"):
            moved = float(np.where(first == now, 0.0, np.abs(now - first)).max())
        if not moved <= PROBE_TOLERANCE:
            raise ValueError(
                f"the server serves another model as {self.model!r} than when this policy was "
                f"first used: scores of fixed rows have moved by up to {moved:.3g} nats. Make a "
                f"new policy for it, with a name of its own"
            )

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

        They are NaN where the server states none. `rng` is the source of the seeds, one per
        request. A ServerError says that the server is unavailable or refuses the sender, a
        ValueError that a prompt is refused or a response is not about the tokens that were sent.
        """
        validate.generator("rng", rng)
        prompts = self.prompts(contexts)
        self._check_if_due()
        missing: dict[Prompt, list[int]] = {}
        for place, prompt in enumerate(prompts):
            missing.setdefault(prompt, []).append(place)
        rows: list[list[int]] = [[]] * len(prompts)
        scores = np.full(len(prompts), np.nan)
        while missing:  # again where a server has ignored `n`
            missing = self._fill(rows, scores, missing, rng)
        if self._drawn is not None:
            for prompt, row, score in zip(prompts, rows, scores.tolist(), strict=True):
                if score == score:
                    self._drawn[prompt, tuple(row)] = score
            for oldest in list(self._drawn)[:-MAX_DRAWN_SCORES]:
                self._drawn.pop(oldest, None)
        return pad_rows(rows, self.max_new_tokens), scores

    def log_prob(self, contexts: Contexts, actions: Actions) -> Floats:
        """Score each completion: the sum of the log-probabilities of its tokens.

        What the server stated with a draw of this policy is its score, so that it is not scored a
        second time; `preflight` compares both. A ServerError says that the server is unavailable
        or refuses the sender, a ValueError that a row is not a completion or a response is not
        about the tokens that were sent.
        """
        pairs = self._pairs(contexts, actions)
        self._check_if_due()
        drawn = self._drawn or {}
        scores = {pair: drawn[pair] for pair in set(pairs) if pair in drawn}
        scores |= self._score([pair for pair in set(pairs) if pair not in scores])
        return np.array([scores[pair] for pair in pairs])

    def token_tables(self, contexts: Contexts, actions: Actions) -> TokenTables:
        """Ask for the likeliest tokens at every position of completions.

        A ServerError says that the server is unavailable or refuses the sender, a ValueError that
        it does not state likely tokens.
        """
        pairs = self._pairs(contexts, actions)
        bodies = [self._scoring([(*prompt, *row)], TABLE_TOKENS) for prompt, row in pairs]
        answers = self.client.post_all("completions", bodies, doing="reading likely tokens")
        places, tokens, log_probs = [], [], []
        for index, ((prompt, row), answer) in enumerate(zip(pairs, answers, strict=True)):
            (choice,) = read_choices(answer, 1)
            entries = read_prompt_entries(choice, (*prompt, *row))[len(prompt) :]
            for position, (token, entry) in enumerate(zip(row, entries, strict=True)):
                listed = [(int(each), _log_prob(entry, int(each))) for each in entry]
                # A server adds the token of the row where it is not among the likeliest: it is left
                # out here, so that a table does not depend on the token.
                listed.sort(key=lambda pair: (-pair[1], pair[0] == token))
                if len(listed) < TABLE_TOKENS:
                    raise ValueError(
                        f"the server returned {len(listed)} likely tokens of a position, asked "
                        f"for {TABLE_TOKENS}"
                    )
                places.append((index, position))
                tokens.append([each for each, _ in listed[:TABLE_TOKENS]])
                log_probs.append([each for _, each in listed[:TABLE_TOKENS]])
        where = np.array(places)
        return TokenTables(where[:, 0], where[:, 1], np.array(tokens), np.array(log_probs))

    def __repr__(self) -> str:
        return (
            f"OpenAIPolicy({self.client.base_url!r}, {self.model!r}, "
            f"max_new_tokens={self.max_new_tokens})"
        )

    def _check_if_due(self) -> None:
        age = time.monotonic() - self._probe["time"]
        if self.probe_seconds is not None and age > self.probe_seconds:
            self.check_unchanged()

    def _pairs(self, contexts: Contexts, actions: Actions) -> list[tuple[Prompt, Prompt]]:
        """Prompts and completions as token ids."""
        prompts, completions, lengths = self._tokenized(contexts, actions)
        return [
            (tuple(prompt), tuple(map(int, completion[:length])))
            for prompt, completion, length in zip(prompts, completions, lengths, strict=True)
        ]

    def _fill(
        self,
        rows: list[list[int]],
        scores: Floats,
        places: dict[Prompt, list[int]],
        rng: np.random.Generator,
    ) -> dict[Prompt, list[int]]:
        """Draw completions into their places; what is left where a server has ignored `n`."""
        parts = [
            (prompt, wanted[start : start + self.max_n])
            for prompt, wanted in places.items()
            for start in range(0, len(wanted), self.max_n)
        ]
        bodies = [
            {
                **self._asking(list(prompt), self.max_new_tokens, len(wanted)),
                "seed": int(seed),
                "stop_token_ids": self.end_token_ids.tolist(),
                "logprobs": 0,
            }
            for (prompt, wanted), seed in zip(
                parts, rng.integers(MAX_COMPLETION_SEED, size=len(parts)), strict=True
            )
        ]
        answers = self.client.post_all("completions", bodies, doing=f"drawing from {self.model!r}")
        left: dict[Prompt, list[int]] = {}
        for (prompt, wanted), answer in zip(parts, answers, strict=True):
            stated = answer.get("choices")
            is_single = isinstance(stated, list) and len(stated) == 1
            choices = read_choices(answer, 1 if is_single else len(wanted))
            count_draws(len(choices), answer.get("usage"))
            for place, choice in zip(wanted, choices, strict=False):
                rows[place] = self._read_completion(choice, prompt)
                scores[place] = _stated_log_prob(choice, rows[place])
            self._check_differ([(rows[place], scores[place]) for place in wanted[: len(choices)]])
            if len(choices) < len(wanted):
                self.max_n = 1
                left.setdefault(prompt, []).extend(wanted[len(choices) :])
        return left

    def _asking(self, prompt: list[Any], tokens: int, count: int = 1) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "n": count,
            "return_token_ids": True,
            **NEUTRAL_SAMPLING,
        }

    def _scoring(self, rows: Sequence[Prompt], likely: int = 0) -> dict[str, Any]:
        """The request that scores texts; the one token that it generates is not read."""
        return {**self._asking([list(row) for row in rows], 1), "prompt_logprobs": likely}

    def _score(
        self, pairs: Sequence[tuple[Prompt, Prompt]]
    ) -> dict[tuple[Prompt, Prompt], float]:
        """Scores of prompts with completions by the server; those of similar length together."""
        ordered = sorted(pairs, key=lambda pair: (len(pair[0]) + len(pair[1]), pair))
        size = ROWS_PER_REQUEST
        batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        bodies = [self._scoring([(*prompt, *row) for prompt, row in batch]) for batch in batches]
        answers = self.client.post_all("completions", bodies, doing=f"scoring by {self.model!r}")
        scores: dict[tuple[Prompt, Prompt], float] = {}
        for batch, answer in zip(batches, answers, strict=True):
            for pair, choice in zip(batch, read_choices(answer, len(batch)), strict=True):
                prompt, row = pair
                entries = read_prompt_entries(choice, (*prompt, *row))[len(prompt) :]
                scores[pair] = sum(_log_prob(*each) for each in zip(entries, row, strict=True))
        return scores

    def _read_completion(self, choice: dict[str, Any], prompt: Prompt) -> list[int]:
        """The tokens of one completion, after all possible checks of them."""
        _check_prompt(choice, prompt)
        tokens, most = choice.get("token_ids"), self.max_new_tokens
        if not isinstance(tokens, list) or not tokens:
            raise ValueError(
                f"the server returned no token ids for {self.model!r} (token_ids is {tokens!r:.80})"
                f": it must support return_token_ids, because the same text can have other tokens"
            )
        if not all(type(each) is int and 0 <= each < 2**31 for each in tokens):
            raise ValueError(f"the server returned {tokens!r:.80} as token ids")
        reason = choice.get("finish_reason")
        if reason not in ("stop", "length"):
            raise ValueError(
                f"the server stopped with finish_reason {reason!r}, expected 'stop' or 'length'"
            )
        if len(tokens) > most:
            raise ValueError(f"the server returned {len(tokens)} tokens, max_tokens is {most}")
        if tokens[-1] not in self.end_token_ids and len(tokens) < most:
            raise ValueError(
                f"the server stopped after {len(tokens)} of {most} tokens at token {tokens[-1]} "
                f"(finish_reason {reason!r}), which is not in eos_token_id "
                f"{self.end_token_ids.tolist()}: it has a limit, stop tokens or stop texts of its "
                f"own, such as those of the model's generation_config, or its context is full"
            )
        check_completions(pad_rows([tokens], most), most, self.end_token_ids, self.vocabulary_size)
        return tokens

    def _check_differ(self, found: Sequence[tuple[list[int], float]]) -> None:
        """Refuse a response whose completions are copies of one, where chance cannot explain it."""
        tokens, log_prob = found[0]
        are_equal = len(found) > 1 and all(each == tokens for each, _ in found)
        if are_equal and (len(found) - 1) * log_prob < LOG_IMPOSSIBLE:
            raise ValueError(
                f"the server returned {len(found)} equal completions of {len(tokens)} tokens for "
                f"{self.model!r}, each of log-probability {log_prob:.4g}: it draws all completions "
                f"of a request with one seed. Pass max_n=1, so that each completion is a request"
            )


def read_choices(response: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """One choice per prompt, in the order of the prompts."""
    choices = response.get("choices")
    if not isinstance(choices, list) or len(choices) != count:
        found = len(choices) if isinstance(choices, list) else "no"
        raise ValueError(f"the server returned {found} choice(s) for {count} prompt(s)")
    if not all(isinstance(choice, dict) for choice in choices):
        raise ValueError(f"the server returned {choices!r:.80} as choices, not objects")
    indices = [choice.get("index") for choice in choices]
    if not all(type(each) is int for each in indices) or sorted(indices) != list(range(count)):
        raise ValueError(
            f"the server numbered its choices {indices!r:.80}, so it is unknown which belongs to "
            f"which of {count} prompt(s)"
        )
    return sorted(choices, key=lambda choice: int(choice["index"]))


def read_prompt_entries(choice: dict[str, Any], row: Sequence[int]) -> list[Any]:
    """What a server states of each token of a row, with an entry for that very token."""
    _check_prompt(choice, row)
    entries = choice.get("prompt_logprobs")
    if not isinstance(entries, list):
        raise ValueError(
            "the server returned no log-probabilities of the given text: it must support "
            "prompt_logprobs on its completions"
        )
    if len(entries) != len(row):
        raise ValueError(
            f"the server returned {len(entries)} log-probabilities for a text of {len(row)} tokens"
        )
    for position, (token, entry) in enumerate(zip(row, entries, strict=True)):
        if position and (not isinstance(entry, dict) or str(token) not in entry):
            raise ValueError(
                f"the server returned log-probabilities of other token ids than were sent: at "
                f"position {position} of {entry!r:.80}, sent was {token}"
            )
    return entries


def _check_prompt(choice: dict[str, Any], sent: Sequence[int]) -> None:
    """Refuse a choice about other tokens than were sent, where the server says which it read."""
    read = choice.get("prompt_token_ids")
    if read is not None and read != list(sent):
        raise ValueError(
            f"the server read other token ids than were sent: {read!r:.80}, sent were "
            f"{list(sent)!r:.80}"
        )


def _stated_log_prob(choice: dict[str, Any], tokens: Sequence[int]) -> float:
    """The log-probability stated for generated tokens; NaN where it is not stated in full."""
    logprobs = choice.get("logprobs")
    if logprobs is not None and not isinstance(logprobs, dict):
        raise ValueError(f"the server returned {logprobs!r:.80} as logprobs, not an object")
    scores = (logprobs or {}).get("token_logprobs")
    if scores is not None and not isinstance(scores, list):
        raise ValueError(f"the server returned {scores!r:.80} as token_logprobs, not a list")
    if not scores or len(scores) != len(tokens) or None in scores:
        return float("nan")
    return sum(_checked(score, token) for score, token in zip(scores, tokens, strict=True))


def _log_prob(entry: dict[str, Any], token: int) -> float:
    value = entry[str(token)]
    return _checked(value.get("logprob") if isinstance(value, dict) else value, token)


def _checked(value: Any, token: int) -> float:
    is_number = type(value) in (int, float)
    if not is_number or not value <= ROUNDING_TOLERANCE:  # NaN fails this too
        hint = " (a logit, as in vLLM's logprobs-mode raw_logits?)" if is_number else ""
        raise ValueError(
            f"the server returned {value!r:.80} as the log-probability of {token}{hint}"
        )
    return float(-np.inf if value <= ZERO_PROBABILITY else min(value, 0.0))
