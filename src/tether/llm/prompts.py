"""Prompts: the contexts of a language model, as token ids."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tether._core.contexts import as_contexts
from tether._core.types import Contexts
from tether.llm.completions import PADDING, Tokenizer, encode_text

Prompt: TypeAlias = tuple[int, ...]
"""The token ids of one prompt, without padding."""


def token_prompts(
    contexts: Contexts,
    tokenizer: Tokenizer | None,
    *,
    add_special_tokens: bool = False,
    max_length: int | None = None,
    vocabulary_size: int | None = None,
) -> list[Prompt]:
    """The token ids of each prompt, given as a text or as a row of token ids padded with −1.

    A prompt of more than `max_length` tokens is refused: truncated, it would be another prompt.
    """
    if contexts is None or isinstance(contexts, (int, np.integer)):
        raise TypeError(
            f"contexts must be prompts, one per completion: texts or rows of token ids, got "
            f"{contexts!r}. For one distribution over all prompts use tether.llm.PromptMixture"
        )
    rows = as_contexts(contexts)
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
    if len(rows) > 1 and rows.strides[0] == 0:  # one row, repeated by broadcasting
        return token_prompts(
            rows[:1],
            tokenizer,
            add_special_tokens=add_special_tokens,
            max_length=max_length,
            vocabulary_size=vocabulary_size,
        ) * len(rows)
    known: dict[str | Prompt, Prompt] = {}
    prompts = []
    for index, row in enumerate(rows.tolist() if rows.dtype.kind in "US" else rows):
        name = f"contexts[{index}]"
        key = row if isinstance(row, str) else _without_padding(name, row)
        if key not in known:
            prompt = (
                tuple(encode_text(tokenizer, key, name, add_special_tokens=add_special_tokens))
                if isinstance(key, str)
                else key
            )
            _check_prompt(name, prompt, max_length, vocabulary_size)
            known[key] = prompt
        prompts.append(known[key])
    return prompts


def _without_padding(name: str, row: Any) -> Prompt:
    array = np.asarray(row)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"{name} must be a text or a row of token ids, got {row!r:.80} "
            f"of {array.ndim} dimension(s) and dtype {array.dtype}"
        )
    return tuple(int(token) for token in array if token != PADDING)


def _check_prompt(
    name: str, prompt: Prompt, max_length: int | None, vocabulary_size: int | None
) -> None:
    if not prompt:
        raise ValueError(f"{name} has no tokens: the model needs at least one")
    if min(prompt) < 0 or (vocabulary_size is not None and max(prompt) >= vocabulary_size):
        raise ValueError(f"{name} has token ids outside the vocabulary of {vocabulary_size}")
    if max_length is not None and len(prompt) > max_length:
        raise ValueError(
            f"{name} has {len(prompt)} tokens, and at most {max_length} leave room for "
            f"max_new_tokens in the model's context length (up to where its rotary embeddings "
            f"change, if they do)"
        )
