"""A model behind an OpenAI-compatible completions server as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether import _ask
from tether._check import Floats
from tether._contexts import settled
from tether.llm import completions
from tether.llm.completing import Completing
from tether.llm.completions import Tokens, whole
from tether.llm.prompts import Prompt, token_prompts
from tether.llm.server import Server

IMPOSSIBLE = -9999.0
"""What vLLM writes for a log-probability of −inf, which JSON lacks."""
PLAIN: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Every setting with which a server would sample another distribution, stated in each request.

vLLM takes those that a request leaves out from the model's `generation_config`.
"""


class OpenAIPolicy(Completing):
    """A language model on a server; contexts and actions are those of `CausalPolicy`.

    The server must take token ids as prompts, return token ids (`return_token_ids`) and score a
    given text (`prompt_logprobs`), as vLLM does. A LoRA that it serves beside its base is a policy
    of its own, by its name in `model`. Each completion is a request with its own seed from the
    generator. Any answer that is not about the tokens asked is an error.

    The temperature is 1: servers score a given text without one, so draws at any other would have
    scores of another distribution.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        eos_token_id: int | Sequence[int],
        tokenizer: Any = None,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        concurrency: int = 8,
        batch: int = 16,
        context_length: int | None = None,
        add_special_tokens: bool = False,
    ) -> None:
        if temperature != 1.0:
            raise ValueError(
                f"temperature must be 1.0, got {temperature!r}: a server scores a given text "
                f"without temperature, so the scores would not be those of the draws"
            )
        self.model, self.tokenizer = model, tokenizer
        self.max_new_tokens = whole("max_new_tokens", max_new_tokens)
        self.ends = completions.end_tokens(eos_token_id)
        self.context_length = context_length
        self.add_special_tokens = bool(add_special_tokens)
        self.batch = whole("batch", batch)
        retries, concurrency = whole("retries", retries, 0), whole("concurrency", concurrency)
        self.server = Server(base_url, api_key, timeout, retries, concurrency)

    def sample(self, contexts: Any, rng: np.random.Generator) -> Tokens:
        """A completion of each prompt."""
        return self.sample_scored(contexts, rng)[0]

    def sample_scored(self, contexts: Any, rng: np.random.Generator) -> tuple[Tokens, Floats]:
        """Completions, and what the server says of them while it samples (`log_prob` is its word).

        Where it states no log-probabilities of what it samples, they are NaN.
        """
        _ask.generator(rng)
        prompts = self.prompts(contexts)
        seeds = rng.integers(2**63 - 1, size=len(prompts))
        bodies = [
            self.sample_request(prompt, int(seed))
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        answers = self.server.ask("completions", bodies)
        choices = [_choices(answer, 1)[0] for answer in answers]
        rows = [
            self._drawn(choice, prompt) for choice, prompt in zip(choices, prompts, strict=True)
        ]
        stated = np.array([_stated(choice) for choice in choices])
        return completions.filled(rows, self.max_new_tokens), stated

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each completion: a sum over its tokens, its end included."""
        actions = self._checked(actions)
        prompts = self.prompts(settled(contexts, actions))
        size = completions.lengths(actions)
        rows = [
            [*prompt, *map(int, action[:length])]
            for prompt, action, length in zip(prompts, actions, size, strict=True)
        ]
        # The same row twice is scored once, and rows of like length go together.
        distinct = sorted({tuple(row) for row in rows}, key=len)
        parts = [distinct[k : k + self.batch] for k in range(0, len(distinct), self.batch)]
        answers = self.server.ask("completions", [self.score_request(part) for part in parts])
        known: dict[tuple[int, ...], list[float]] = {}
        for part, answer in zip(parts, answers, strict=True):
            for row, choice in zip(part, _choices(answer, len(part)), strict=True):
                known[row] = _given(choice, row)
        return np.array(
            [
                sum(known[tuple(row)][len(prompt) - 1 :])
                for prompt, row in zip(prompts, rows, strict=True)
            ]
        )

    def sample_request(self, prompt: Prompt, seed: int) -> dict[str, Any]:
        """What is sent to draw one completion."""
        return {
            "model": self.model,
            "prompt": list(prompt),
            "max_tokens": self.max_new_tokens,
            "n": 1,
            "seed": seed,
            "stop_token_ids": self.ends.tolist(),
            "logprobs": 0,
            "return_token_ids": True,
            **PLAIN,
        }

    def score_request(self, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
        """What is sent to score texts; the one token that is generated with them is not read."""
        return {
            "model": self.model,
            "prompt": [list(row) for row in rows],
            "max_tokens": 1,
            "n": 1,
            "prompt_logprobs": 0,
            "return_token_ids": True,
            **PLAIN,
        }

    def prompts(self, contexts: Any) -> list[Prompt]:
        """The token ids that the model sees for each context."""
        room = self.context_length
        return token_prompts(
            contexts,
            self.tokenizer,
            special=self.add_special_tokens,
            # A request to score generates one token more, which must fit as well.
            most=None if room is None else room - self.max_new_tokens - 1,
        )

    def __repr__(self) -> str:
        return (
            f"OpenAIPolicy({self.server.base_url!r}, {self.model!r}, "
            f"max_new_tokens={self.max_new_tokens})"
        )

    def _drawn(self, choice: dict[str, Any], prompt: Prompt) -> list[int]:
        """The tokens of one completion, after all that can be checked about them is."""
        _same_prompt(choice, prompt)
        tokens, reason = choice.get("token_ids"), choice.get("finish_reason")
        if not isinstance(tokens, list) or not tokens:
            raise ValueError(
                f"the server returned no token ids for {self.model!r} (token_ids is {tokens!r}): "
                f"it must support return_token_ids, since the same text can have other tokens"
            )
        if reason not in ("stop", "length"):
            raise ValueError(f"the server stopped for the reason {reason!r}, not at an end")
        if len(tokens) > self.max_new_tokens:
            raise ValueError(
                f"the server returned {len(tokens)} tokens, asked were {self.max_new_tokens}"
            )
        if tokens[-1] not in self.ends and len(tokens) < self.max_new_tokens:
            raise ValueError(
                f"the server stopped after {len(tokens)} of {self.max_new_tokens} tokens at token "
                f"{tokens[-1]} (finish_reason {reason!r}), which is not in eos_token_id "
                f"{self.ends.tolist()}: it stops at tokens or texts of its own"
            )
        self._checked(completions.filled([tokens], self.max_new_tokens))
        return tokens


def _choices(answer: dict[str, Any], count: int) -> list[dict[str, Any]]:
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != count:
        raise ValueError(
            f"the server returned {len(choices) if isinstance(choices, list) else 'no'} choice(s) "
            f"for {count} prompt(s)"
        )
    return sorted(choices, key=lambda choice: choice.get("index", 0))


def _same_prompt(choice: dict[str, Any], asked: Sequence[int]) -> None:
    seen = choice.get("prompt_token_ids")
    if seen is not None and list(seen) != list(asked):
        raise ValueError(
            f"the server read other token ids than asked: {len(seen)} tokens {list(seen)[:8]}…, "
            f"asked were {len(asked)} tokens {list(asked)[:8]}…"
        )


def _stated(choice: dict[str, Any]) -> float:
    found = (choice.get("logprobs") or {}).get("token_logprobs")
    if not found or len(found) != len(choice["token_ids"]) or None in found:
        return float("nan")
    return float(sum(found))


def _given(choice: dict[str, Any], row: Sequence[int]) -> list[float]:
    """The log-probability of each token of a text after its first."""
    _same_prompt(choice, row)
    found = choice.get("prompt_logprobs")
    if not isinstance(found, list):
        raise ValueError(
            "the server returned no log-probabilities of the given text: it must support "
            "prompt_logprobs on its completions"
        )
    if len(found) != len(row):
        raise ValueError(
            f"the server returned {len(found)} log-probabilities for a text of {len(row)} tokens"
        )
    scores = []
    for place, (token, entry) in enumerate(zip(row, found, strict=True)):
        if place == 0:
            continue
        if not isinstance(entry, dict) or str(token) not in entry:
            raise ValueError(
                f"the server returned a log-probability of other token ids than asked: at position "
                f"{place} it is of {sorted(entry) if isinstance(entry, dict) else entry}, asked "
                f"was {token}"
            )
        value = entry[str(token)]
        score = value.get("logprob") if isinstance(value, dict) else value
        if not isinstance(score, (int, float)) or not score <= 1e-3:  # NaN fails this too
            raise ValueError(f"the server returned {score!r} as the log-probability of {token}")
        scores.append(-np.inf if score <= IMPOSSIBLE else min(float(score), 0.0))
    return scores
