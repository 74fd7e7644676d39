"""The fields of a completions server's response: the requested values, or an error.

A field of another type than OpenAI's or vLLM's is never read as if it were of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ZERO_PROBABILITY = -9999.0
"""What vLLM writes for a log-probability of −inf, which JSON lacks."""
ROUNDING_TOLERANCE = 1e-3
"""How far above zero a log-probability may be: 16-bit logits round."""
TOKEN_ID_LIMIT = 2**31
"""All token ids are smaller than this."""


def read_choices(response: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """One choice per prompt, in the order of the prompts."""
    choices = response.get("choices")
    if not isinstance(choices, list) or len(choices) != count:
        raise ValueError(
            f"the server returned {len(choices) if isinstance(choices, list) else 'no'} choice(s) "
            f"for {count} prompt(s)"
        )
    for choice in choices:
        if not isinstance(choice, dict):
            raise ValueError(f"the server returned {_shorten(choice)} as a choice, not an object")
    indices = [choice.get("index") for choice in choices]
    if not all(map(_is_integer, indices)) or sorted(indices) != list(range(count)):
        raise ValueError(
            f"the server numbered its choices {_shorten(indices)}, so it is unknown which belongs "
            f"to which of {count} prompt(s)"
        )
    return sorted(choices, key=lambda choice: int(choice["index"]))


def check_prompt(choice: dict[str, Any], sent: Sequence[int]) -> None:
    """Refuse a choice about other tokens than were sent, where the server says which it read."""
    read = choice.get("prompt_token_ids")
    if read is None:
        return
    if not isinstance(read, list):
        raise ValueError(f"the server returned {_shorten(read)} as prompt_token_ids, not a list")
    if read != list(sent):
        raise ValueError(
            f"the server read other token ids than were sent: {len(read)} tokens {read[:8]}…, sent "
            f"were {len(sent)} tokens {list(sent)[:8]}…"
        )


def read_token_ids(choice: dict[str, Any], model: str) -> list[int]:
    """The generated tokens."""
    tokens = choice.get("token_ids")
    if not isinstance(tokens, list) or not tokens:
        raise ValueError(
            f"the server returned no token ids for {model!r} (token_ids is {_shorten(tokens)}): "
            f"it must support return_token_ids, because the same text can have other tokens"
        )
    for token in tokens:
        if not _is_integer(token) or not 0 <= token < TOKEN_ID_LIMIT:
            raise ValueError(f"the server returned {_shorten(token)} as a token id for {model!r}")
    return tokens


def read_sampled_log_prob(choice: dict[str, Any], tokens: Sequence[int]) -> float:
    """The log-probability stated for generated tokens; NaN where it is not stated in full.

    It is for comparison only: the score of a completion is what `log_prob` returns.
    """
    logprobs = choice.get("logprobs")
    if logprobs is not None and not isinstance(logprobs, dict):
        raise ValueError(f"the server returned {_shorten(logprobs)} as logprobs, not an object")
    scores = (logprobs or {}).get("token_logprobs")
    if scores is not None and not isinstance(scores, list):
        raise ValueError(f"the server returned {_shorten(scores)} as token_logprobs, not a list")
    if not scores or len(scores) != len(tokens) or None in scores:
        return float("nan")
    return float(
        sum(_check_log_prob(score, token) for score, token in zip(scores, tokens, strict=True))
    )


def read_prompt_log_probs(choice: dict[str, Any], row: Sequence[int]) -> list[float]:
    """The log-probability of each token of a given row after its first.

    An entry may hold likelier tokens beside that of the row, but must hold that one.
    """
    entries = _read_prompt_entries(choice, row)
    return [
        _entry_log_prob(entry, token) for token, entry in zip(row[1:], entries[1:], strict=True)
    ]


def read_likely_tokens(
    choice: dict[str, Any], row: Sequence[int], count: int
) -> list[list[tuple[int, float]]]:
    """The `count` likeliest tokens at each position of a given row after its first.

    A server adds the token of the row where that is not among them; it is left out here, so that a
    table does not depend on the token.
    """
    tables = []
    for token, entry in zip(row[1:], _read_prompt_entries(choice, row)[1:], strict=True):
        scored = [(int(each), _entry_log_prob(entry, int(each))) for each in entry]
        scored.sort(key=lambda pair: (-pair[1], pair[0] == token))
        if len(scored) < count:
            raise ValueError(
                f"the server returned {len(scored)} likely tokens of a position, asked for {count}"
            )
        tables.append(scored[:count])
    return tables


def _read_prompt_entries(choice: dict[str, Any], row: Sequence[int]) -> list[Any]:
    """What a server states of each token of a row, with an entry for that token."""
    check_prompt(choice, row)
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
            returned = _shorten(sorted(entry) if isinstance(entry, dict) else entry)
            raise ValueError(
                f"the server returned log-probabilities of other token ids than were sent: at "
                f"position {position} of {returned}, sent was {token}"
            )
    return entries


def _entry_log_prob(entry: dict[str, Any], token: int) -> float:
    value = entry[str(token)]
    return _check_log_prob(value.get("logprob") if isinstance(value, dict) else value, token)


def _check_log_prob(value: Any, token: int) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not value <= ROUNDING_TOLERANCE:  # NaN fails this too
        hint = " (a logit, as in vLLM's logprobs-mode raw_logits?)" if number and value > 0 else ""
        raise ValueError(
            f"the server returned {_shorten(value)} as the log-probability of {token}{hint}"
        )
    return float(-np.inf if value <= ZERO_PROBABILITY else min(value, 0.0))


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"
