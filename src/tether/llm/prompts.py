"""Prompts: the contexts of a language model, as token ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether._core.contexts import as_contexts
from tether.llm.completions import FILL, encoded

Prompt = tuple[int, ...]


def token_prompts(
    contexts: Any,
    tokenizer: Any,
    *,
    special: bool = False,
    most: int | None = None,
    vocabulary: int | None = None,
) -> list[Prompt]:
    """The token ids of each prompt: of a text, or of a row of ids in which −1 stands for nothing.

    With `most`, a prompt of more tokens is refused: cut short, it would be another prompt.
    """
    if contexts is None or isinstance(contexts, (int, np.integer)):
        raise TypeError(
            f"contexts must be prompts, one for each completion: texts or rows of token ids, got "
            f"{contexts!r}. For one distribution over all prompts use tether.llm.PromptMixture"
        )
    rows = as_contexts(contexts)
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
    if len(rows) > 1 and rows.strides[0] == 0:  # one row, many times over
        return token_prompts(
            rows[:1], tokenizer, special=special, most=most, vocabulary=vocabulary
        ) * len(rows)
    known: dict[Any, Prompt] = {}
    prompts = []
    for place, row in enumerate(rows.tolist() if rows.dtype.kind in "US" else rows):
        key = row if isinstance(row, str) else _ids(place, row)
        if key not in known:
            known[key] = _prompt(place, key, tokenizer, special, most, vocabulary)
        prompts.append(known[key])
    return prompts


def _ids(place: int, row: Any) -> Prompt:
    array = np.asarray(row)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TypeError(
            f"contexts[{place}] must be a text or a row of token ids, got {row!r:.80} "
            f"of {array.ndim} dimension(s) and dtype {array.dtype}"
        )
    return tuple(int(token) for token in array if token != FILL)


def _prompt(
    place: int,
    key: Any,
    tokenizer: Any,
    special: bool,
    most: int | None,
    vocabulary: int | None,
) -> Prompt:
    name = f"contexts[{place}]"
    text = isinstance(key, str)
    prompt: Prompt = tuple(encoded(tokenizer, key, name, special=special)) if text else key
    if not prompt:
        raise ValueError(f"{name} has no tokens: a model that sees none predicts nothing")
    if min(prompt) < 0 or (vocabulary is not None and max(prompt) >= vocabulary):
        raise ValueError(f"{name} has token ids outside of the vocabulary of {vocabulary}")
    if most is not None and len(prompt) > most:
        raise ValueError(
            f"{name} has {len(prompt)} tokens, and at most {most} leave room for max_new_tokens in "
            f"the model's context, as far as its rotary embeddings stay the same"
        )
    return prompt
