"""A model behind an OpenAI-compatible completions server as a policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether._core import policy_calls
from tether._core.contexts import as_contexts
from tether._core.types import Floats
from tether.llm import completions
from tether.llm.completion_policy import Completing
from tether.llm.completions import Tokens, whole
from tether.llm.prompts import Prompt, token_prompts
from tether.llm.server import answers
from tether.llm.server.http_client import Server

PLAIN: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "watermarking": False,
}
"""Every setting with which a server would sample otherwise, stated in each request.

vLLM takes those that a request leaves out from the model's `generation_config`, and marks what it
generates where it was started to: then tokens follow from its key and not from the seed, so that
several draws of one prompt are one.
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
        policy_calls.generator(rng)
        prompts = self.prompts(contexts)
        seeds = rng.integers(2**63 - 1, size=len(prompts))
        bodies = [
            self.sample_request(prompt, int(seed))
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        found = self.server.ask("completions", bodies)
        choices = [answers.choices(each, 1)[0] for each in found]
        rows = [
            self._drawn(choice, prompt) for choice, prompt in zip(choices, prompts, strict=True)
        ]
        stated = [answers.stated(choice, row) for choice, row in zip(choices, rows, strict=True)]
        return completions.filled(rows, self.max_new_tokens), np.array(stated)

    def log_prob(self, contexts: Any, actions: Any) -> Floats:
        """The log-probability of each completion: a sum over its tokens, its end included."""
        actions = self._checked(actions)
        prompts = self.prompts(as_contexts(contexts, actions))
        size = completions.lengths(actions)
        rows = [
            [*prompt, *map(int, action[:length])]
            for prompt, action, length in zip(prompts, actions, size, strict=True)
        ]
        # The same row twice is scored once, and rows of like length go together.
        distinct = sorted({tuple(row) for row in rows}, key=len)
        parts = [distinct[k : k + self.batch] for k in range(0, len(distinct), self.batch)]
        found = self.server.ask("completions", [self.score_request(part) for part in parts])
        known: dict[tuple[int, ...], list[float]] = {}
        for part, answer in zip(parts, found, strict=True):
            for row, choice in zip(part, answers.choices(answer, len(part)), strict=True):
                known[row] = answers.given(choice, row)
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
        answers.same_prompt(choice, prompt)
        tokens, reason = answers.token_ids(choice, self.model), choice.get("finish_reason")
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
