"""First tokens: drawn alone at a few prompts, against what all tokens are scored with there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.contexts import length, take
from tether.llm.preflight_checks import policy_checks
from tether.llm.preflight_checks.result import Check

FIRST_TOKENS, MORE_FIRST_TOKENS = 128, 256
"""Draws of the first token alone at a prompt; more where the scores of the others are unknown."""
FEW_PROMPTS = 8


def as_scored(first: Any, prompts: Any, rng: np.random.Generator) -> Check:
    """What a policy over one token draws at a few prompts, against what it scores there."""
    few = take(prompts, np.arange(min(FEW_PROMPTS, length(prompts))))
    vocabulary, tables = getattr(first, "vocabulary", None), None
    if vocabulary is not None:
        every = np.arange(vocabulary)[:, None]
        tables = [first.log_prob(_repeated(few, k, vocabulary), every) for k in range(length(few))]
    draws = FIRST_TOKENS if tables is not None else MORE_FIRST_TOKENS
    here = take(few, np.repeat(np.arange(length(few)), draws))
    tokens = first.sample(here, rng)
    return policy_checks.first_tokens(tokens[:, 0], first.log_prob(here, tokens), draws, tables)


def _repeated(prompts: Any, place: int, times: int) -> Any:
    """One prompt many times, without a copy of it for each: a vocabulary is large."""
    one = np.asarray(take(prompts, np.array([place])))
    one = one.astype(object) if one.dtype.kind == "U" else one
    return np.broadcast_to(one, (times, *one.shape[1:]))
