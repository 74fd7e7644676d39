"""What a completions server answered, field by field: the numbers that were asked for, or an error.

A field of another kind than OpenAI's or vLLM's is never read as if it were of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

IMPOSSIBLE = -9999.0
"""What vLLM writes for a log-probability of −inf, which JSON lacks."""
ROUNDING = 1e-3
"""How far above zero a log-probability may be: 16-bit logits round."""
MOST_TOKENS = 2**31
"""No vocabulary has a token id of so much."""


def choices(answer: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """One choice for each prompt, in the order of the prompts."""
    found = answer.get("choices")
    if not isinstance(found, list) or len(found) != count:
        raise ValueError(
            f"the server returned {len(found) if isinstance(found, list) else 'no'} choice(s) "
            f"for {count} prompt(s)"
        )
    for choice in found:
        if not isinstance(choice, dict):
            raise ValueError(f"the server returned {_short(choice)} as a choice, not an object")
    places = [choice.get("index") for choice in found]
    if not all(map(_is_whole, places)) or sorted(places) != list(range(count)):
        raise ValueError(
            f"the server numbered its choices {_short(places)}, so nobody knows which is about "
            f"which of {count} prompt(s)"
        )
    return sorted(found, key=lambda choice: int(choice["index"]))


def same_prompt(choice: dict[str, Any], asked: Sequence[int]) -> None:
    """Refuse a choice about other tokens than asked, where the server says which it read."""
    seen = choice.get("prompt_token_ids")
    if seen is None:
        return
    if not isinstance(seen, list):
        raise ValueError(f"the server returned {_short(seen)} as prompt_token_ids, not a list")
    if seen != list(asked):
        raise ValueError(
            f"the server read other token ids than asked: {len(seen)} tokens {seen[:8]}…, asked "
            f"were {len(asked)} tokens {list(asked)[:8]}…"
        )


def token_ids(choice: dict[str, Any], model: str) -> list[int]:
    """The tokens that were generated."""
    tokens = choice.get("token_ids")
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(
            f"the server returned no token ids for {model!r} (token_ids is {_short(tokens)}): "
            f"it must support return_token_ids, since the same text can have other tokens"
        )
    for token in tokens:
        if not _is_whole(token) or not 0 <= token < MOST_TOKENS:
            raise ValueError(f"the server returned {_short(token)} as a token id for {model!r}")
    return tokens


def stated(choice: dict[str, Any], tokens: Sequence[int]) -> float:
    """What the server says of the tokens while it samples them; NaN where it does not say it all.

    `log_prob` is the server's word, and this is for comparison alone.
    """
    found = choice.get("logprobs")
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"the server returned {_short(found)} as logprobs, not an object")
    scores = (found or {}).get("token_logprobs")
    if scores is not None and not isinstance(scores, list):
        raise ValueError(f"the server returned {_short(scores)} as token_logprobs, not a list")
    if not scores or len(scores) != len(tokens) or None in scores:
        return float("nan")
    return float(sum(_log_prob(each, token) for each, token in zip(scores, tokens, strict=True)))


def given(choice: dict[str, Any], row: Sequence[int]) -> list[float]:
    """The log-probability of each token of a given text after its first.

    An entry may hold likelier tokens beside the one of the text; it must hold that one.
    """
    same_prompt(choice, row)
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
                f"{place} it is of {_short(sorted(entry) if isinstance(entry, dict) else entry)}, "
                f"asked was {token}"
            )
        value = entry[str(token)]
        scores.append(_log_prob(value.get("logprob") if isinstance(value, dict) else value, token))
    return scores


def _log_prob(value: Any, token: int) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not value <= ROUNDING:  # NaN fails this too
        logits = (
            " (a logit, as in vLLM's logprobs-mode raw_logits?)" if number and value > 0 else ""
        )
        raise ValueError(
            f"the server returned {_short(value)} as the log-probability of {token}{logits}"
        )
    return float(-np.inf if value <= IMPOSSIBLE else min(value, 0.0))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
