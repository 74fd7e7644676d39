"""Drawing completions from a server: those of one prompt share a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether.llm.prompts import Prompt
from tether.llm.server import responses
from tether.llm.server.chat_usage import count_draws
from tether.llm.server.completion_requests import read_completion, sample_request

if TYPE_CHECKING:
    from tether.llm.server.openai_policy import OpenAIPolicy

MAX_COMPLETION_SEED = 2**62
"""Seeds are smaller than this: vLLM adds the number of a completion, which must fit 63 bits."""
LOG_IMPOSSIBLE = -27.6
"""Completions of one request that agree with a log-probability below this (1e-12) are no chance."""


class DrawnCompletion(NamedTuple):
    """The tokens of a completion, and the log-probability stated for it or NaN."""

    tokens: list[int]
    log_prob: float


def draw_completions(
    policy: OpenAIPolicy, prompts: Sequence[Prompt], rng: np.random.Generator
) -> list[DrawnCompletion]:
    """One completion per prompt; equal prompts share requests of at most `max_n` completions.

    Each request has a seed of its own, from which the server takes one for each completion. A
    server that returns one completion where several were asked for is asked again for each of the
    others, with a seed of its own, now and later.
    """
    missing: dict[Prompt, list[int]] = {}
    for place, prompt in enumerate(prompts):
        missing.setdefault(prompt, []).append(place)
    drawn: dict[int, DrawnCompletion] = {}
    while missing:
        missing = _fill(policy, drawn, missing, rng)
    return [drawn[place] for place in range(len(prompts))]


def _fill(
    policy: OpenAIPolicy,
    drawn: dict[int, DrawnCompletion],
    places: Mapping[Prompt, list[int]],
    rng: np.random.Generator,
) -> dict[Prompt, list[int]]:
    """Draw completions into their places; what is left where a server has ignored `n`."""
    size = 1 if policy.ignores_n else policy.max_n
    parts = [
        (prompt, wanted[start : start + size])
        for prompt, wanted in places.items()
        for start in range(0, len(wanted), size)
    ]
    seeds = rng.integers(MAX_COMPLETION_SEED, size=len(parts))
    requests = [
        sample_request(policy, prompt, len(wanted), int(seed))
        for (prompt, wanted), seed in zip(parts, seeds, strict=True)
    ]
    left: dict[Prompt, list[int]] = {}
    doing = f"drawing from {policy.model!r}"
    answers = policy.client.post_all("completions", requests, doing=doing)
    for (prompt, wanted), answer in zip(parts, answers, strict=True):
        found = _read(policy, prompt, len(wanted), answer)
        drawn.update(zip(wanted, found, strict=False))
        if len(found) < len(wanted):
            policy.ignores_n = True
            left.setdefault(prompt, []).extend(wanted[len(found) :])
    return left


def _read(
    policy: OpenAIPolicy, prompt: Prompt, count: int, answer: dict[str, object]
) -> list[DrawnCompletion]:
    """The completions of a response: as many as were asked for, or one where `n` was ignored."""
    stated = answer.get("choices")
    is_single = isinstance(stated, list) and len(stated) == 1
    choices = responses.read_choices(answer, 1 if is_single else count)
    count_draws(len(choices), answer.get("usage"))
    found = []
    for choice in choices:
        tokens = read_completion(policy, choice, prompt)
        found.append(DrawnCompletion(tokens, responses.read_sampled_log_prob(choice, tokens)))
    _check_differ(policy.model, found)
    return found


def _check_differ(model: str, found: Sequence[DrawnCompletion]) -> None:
    """Refuse a response whose completions are copies of one, where chance cannot explain it."""
    first = found[0]
    are_equal = len(found) > 1 and all(each.tokens == first.tokens for each in found)
    if are_equal and (len(found) - 1) * first.log_prob < LOG_IMPOSSIBLE:
        raise ValueError(
            f"the server returned {len(found)} equal completions of {len(first.tokens)} tokens for "
            f"{model!r}, each of log-probability {first.log_prob:.4g}: it draws all completions of "
            f"a request with one seed. Pass max_n=1, so that each completion is a request"
        )
