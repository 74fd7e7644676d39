"""Prompts and completions: the contexts and actions of a language model, as token ids.

A completion is a row of `max_new_tokens` token ids: the generated tokens, including the
end-of-sequence token, followed by −1. A row without an end-of-sequence token fills the full width:
generation was cut off, which is an outcome in its own right and not an unfinished one. So rows can
be compared, stored and concatenated like any numbers, and their probabilities sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from tether._core.arrays import Actions, Booleans, Contexts, Floats, Integers
from tether._core.contexts import as_contexts

Tokens: TypeAlias = Integers  # one row per completion
Prompt: TypeAlias = tuple[int, ...]  # without padding

PADDING = -1
"""Follows the end of a completion, and marks unused positions of a prompt."""
TABLE_TOKENS = 20
"""How many of the likeliest tokens a table has: what servers give by default."""


class Tokenizer(Protocol):
    """The part of a tokenizer of `transformers` that is used."""

    def encode(self, text: str, /, *, add_special_tokens: bool) -> Sequence[int]:
        """Return the token ids of a text."""

    def decode(
        self, tokens: list[int], /, *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> Any:
        """Return the text of token ids."""


@dataclass(frozen=True)
class TokenTables:
    """The likeliest tokens at every token of every completion, ordered by row and position.

    `row` and `position` (m) say where, `tokens` and `log_probs` (m × k) what is likely there.
    """

    row: Integers
    position: Integers
    tokens: Integers
    log_probs: Floats


def pad_rows(rows: Sequence[Sequence[int]], width: int) -> Tokens:
    """Rows of token ids as one array of the given width, padded on the right."""
    array = np.full((len(rows), width), PADDING, dtype=np.int64)
    for index, row in enumerate(rows):
        array[index, : len(row)] = row
    return array


def completion_lengths(actions: Tokens) -> Integers:
    """The number of tokens of each completion, including its end-of-sequence token."""
    return np.asarray(np.count_nonzero(actions != PADDING, axis=1), dtype=np.int64)


def content_tokens(row: Tokens, ends: Tokens) -> list[int]:
    """The tokens of one completion without its end-of-sequence token and padding."""
    return [int(token) for token in row if token != PADDING and token not in ends]


def check_completions(
    actions: Actions, width: int, ends: Tokens, vocabulary_size: int | None
) -> Tokens:
    """Completions that a policy of this width and these end tokens can produce, or an error.

    Any other row (tokens after the end, a short row without an end) is not an outcome of the
    policy: its score would be the probability of a different event.
    """
    array = np.asarray(actions)
    if array.dtype.kind not in "iu":
        raise TypeError(f"actions must hold token ids, got an array of dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(
            f"actions must have one row of max_new_tokens = {width} token ids per completion "
            f"(-1 after its end), got shape {array.shape}"
        )
    array = array.astype(np.int64, copy=False)
    lengths, place = completion_lengths(array), np.arange(width)
    is_end = np.isin(array, ends)
    shown = ", ".join(map(str, ends.tolist()))
    most = np.inf if vocabulary_size is None else vocabulary_size
    for wrong, expected in (
        ((array != PADDING) != (place < lengths[:, None]), "-1 only after its end"),
        ((array < PADDING) | (array >= most), f"token ids below {most}"),
        (is_end & (place != lengths[:, None] - 1), f"nothing after an end token ({shown})"),
        (
            ((lengths < width) & ~is_end.any(axis=1))[:, None],
            f"an end-of-sequence token ({shown}) last, as it is shorter than max_new_tokens",
        ),
    ):
        bad = wrong.any(axis=1)
        if bad.any():
            index = int(np.argmax(bad))
            tokens = [int(token) for token in array[index] if token != PADDING]
            raise ValueError(
                f"actions[{index}] is not a completion of this policy: expected {expected}, got "
                f"{tokens} ({int(bad.sum())} such row(s) in {len(array)})"
            )
    return array


def are_cut_off(actions: Tokens, ends: Tokens) -> Booleans:
    """Which completions have no end-of-sequence token, so were cut off at the full width."""
    return np.asarray(~np.isin(actions, ends).any(axis=1))


def encode_completions(
    texts: Sequence[str], tokenizer: Tokenizer | None, width: int, ends: Tokens
) -> Tokens:
    """Texts as finished completions, each followed by the first end-of-sequence token."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts must be a sequence of strings, got {texts!r:.80}")
    rows = []
    for index, text in enumerate(texts):
        row = [*encode_text(tokenizer, text, f"texts[{index}]"), int(ends[0])]
        if np.isin(row[:-1], ends).any():
            raise ValueError(f"texts[{index}] contains an end token, which is added: {text!r:.60}")
        if len(row) > width:
            raise ValueError(
                f"texts[{index}] has {len(row)} tokens with its end, more than max_new_tokens = "
                f"{width}"
            )
        rows.append(row)
    return pad_rows(rows, width)


def encode_text(
    tokenizer: Tokenizer | None, text: str, name: str, *, add_special_tokens: bool = False
) -> list[int]:
    """The token ids of a text, which must decode to the same text."""
    if tokenizer is None:
        raise ValueError(f"{name} is a text but tokenizer is None: pass token ids or a tokenizer")
    tokens = [int(each) for each in tokenizer.encode(text, add_special_tokens=add_special_tokens)]
    decoded = decode_text(tokenizer, tokens)
    if decoded != text and not (add_special_tokens and decoded.endswith(text)):
        raise ValueError(
            f"the tokenizer does not preserve {name}: {text!r:.60} became {decoded!r:.60}. "
            f"Its score would be that of another text; pass token ids, or a text that is preserved"
        )
    start = getattr(tokenizer, "bos_token_id", None)
    if decoded != text and tokens[:2] == [start, start]:
        raise ValueError(
            f"{name} begins with {getattr(tokenizer, 'bos_token', None)!r}, and "
            f"add_special_tokens=True adds another one: remove one of them"
        )
    return tokens


def decode_text(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    """The text of token ids, including special tokens and without clean-up of spaces."""
    options = {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
    return str(tokenizer.decode(list(tokens), **options))


def as_end_token_ids(eos_token_id: int | Sequence[int] | None) -> Tokens:
    """One or several end-of-sequence token ids as an array; there must be at least one."""
    if eos_token_id is None or np.size(eos_token_id) == 0:
        raise ValueError("neither the model nor the tokenizer defines one: pass eos_token_id")
    ends = np.atleast_1d(np.asarray(eos_token_id))
    if ends.dtype.kind not in "iu" or ends.ndim != 1 or ends.min() < 0:
        raise TypeError(f"eos_token_id must be one or several token ids, got {eos_token_id!r}")
    return ends.astype(np.int64)


def token_prompts(
    contexts: Contexts,
    tokenizer: Tokenizer | None,
    *,
    add_special_tokens: bool = False,
    max_length: int | None = None,
    vocabulary_size: int | None = None,
) -> list[Prompt]:
    """The token ids of each prompt, given as a text or as a row of token ids padded with −1."""
    if contexts is None or isinstance(contexts, (int, np.integer)):
        raise TypeError(f"contexts must be prompts, one per completion, got {contexts!r}")
    rows = as_contexts(contexts)
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
    known: dict[str | Prompt, Prompt] = {}
    prompts = []
    for index, row in enumerate(rows.tolist() if rows.dtype.kind in "US" else rows):
        name, ids = f"contexts[{index}]", np.asarray(row)
        if not isinstance(row, str) and (
            ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu")
        ):
            raise TypeError(f"{name} must be a text or a row of token ids, got {row!r:.80}")
        key = row if isinstance(row, str) else tuple(ids[ids != PADDING].tolist())
        if key not in known:
            prompt: Any = key
            if isinstance(key, str):
                prompt = encode_text(tokenizer, key, name, add_special_tokens=add_special_tokens)
            if not prompt:
                raise ValueError(f"{name} has no tokens: the model needs at least one")
            if min(prompt) < 0 or max(prompt) >= (vocabulary_size or np.inf):
                raise ValueError(f"{name} has ids outside the vocabulary of {vocabulary_size}")
            if max_length is not None and len(prompt) > max_length:  # cut, it would be another one
                raise ValueError(
                    f"{name} has {len(prompt)} tokens, and at most {max_length} leave room for "
                    f"max_new_tokens in the model's context length"
                )
            known[key] = tuple(prompt)
        prompts.append(known[key])
    return prompts


def differing_words(one: Tokenizer | None, other: Tokenizer | None) -> str:
    """Where two tokenizers name a token differently, in words; empty if they nowhere do."""
    if one is other:
        return ""
    tables: list[dict[str, int]] = [getattr(each, "get_vocab", dict)() for each in (one, other)]
    own, others = ({token: word for word, token in table.items()} for table in tables)
    for token in sorted(own.keys() & others.keys()):
        if own[token] != others[token]:
            return f"token {token} is {own[token]!r} for one and {others[token]!r} for the other"
    return ""
