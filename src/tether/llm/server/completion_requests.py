"""Requests to a completions server that draw and score, and the completions in its answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tether.llm.completions import check_completions, pad_rows
from tether.llm.prompts import Prompt
from tether.llm.server import responses

if TYPE_CHECKING:
    from tether.llm.server.openai_policy import OpenAIPolicy

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


def sample_request(policy: OpenAIPolicy, prompt: Prompt, count: int, seed: int) -> dict[str, Any]:
    """The body of the request that draws completions of one prompt."""
    return {
        "model": policy.model,
        "prompt": list(prompt),
        "max_tokens": policy.max_new_tokens,
        "n": count,
        "seed": seed,
        "stop_token_ids": policy.end_token_ids.tolist(),
        "logprobs": 0,
        "return_token_ids": True,
        **NEUTRAL_SAMPLING,
    }


def score_request(model: str, rows: Sequence[Sequence[int]]) -> dict[str, Any]:
    """The body of the request that scores texts; the one token that it generates is not read."""
    return {
        "model": model,
        "prompt": [list(row) for row in rows],
        "max_tokens": 1,
        "n": 1,
        "prompt_logprobs": 0,
        "return_token_ids": True,
        **NEUTRAL_SAMPLING,
    }


def read_completion(policy: OpenAIPolicy, choice: dict[str, Any], prompt: Prompt) -> list[int]:
    """The tokens of one completion, after all possible checks of them."""
    responses.check_prompt(choice, prompt)
    tokens = responses.read_token_ids(choice, policy.model)
    reason = choice.get("finish_reason")
    if reason not in ("stop", "length"):
        raise ValueError(
            f"the server stopped with finish_reason {reason!r}, expected 'stop' or 'length'"
        )
    if len(tokens) > policy.max_new_tokens:
        raise ValueError(
            f"the server returned {len(tokens)} tokens, more than max_tokens = "
            f"{policy.max_new_tokens}"
        )
    if tokens[-1] not in policy.end_token_ids and len(tokens) < policy.max_new_tokens:
        raise ValueError(
            f"the server stopped after {len(tokens)} of {policy.max_new_tokens} tokens at token "
            f"{tokens[-1]} (finish_reason {reason!r}), which is not in eos_token_id "
            f"{policy.end_token_ids.tolist()}: it has "
            + (
                "a limit of its own, such as max_new_tokens in the model's generation_config, or "
                "the context length"
                if reason == "length"
                else "stop tokens or stop texts of its own"
            )
        )
    most = policy.max_new_tokens
    check_completions(pad_rows([tokens], most), most, policy.end_token_ids, policy.vocabulary_size)
    return tokens
