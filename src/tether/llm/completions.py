"""Completions: the actions of a language model, as arrays.

A completion is a row of `max_new_tokens` token ids: the generated tokens, including the
end-of-sequence token, followed by −1. A row without an end-of-sequence token fills the full width:
generation was cut off, which is an outcome in its own right and not an unfinished one. So rows can
be compared, stored and concatenated like any numbers, and their probabilities sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from tether._core.types import Actions, Booleans, Integers

Tokens: TypeAlias = Integers
"""Token ids, one row per completion."""

PADDING = -1
"""Follows the end of a completion, and marks unused positions of a prompt."""


class Tokenizer(Protocol):
    """The part of a tokenizer of `transformers` that is used."""

    def encode(self, text: str, /, *, add_special_tokens: bool) -> Sequence[int]:
        """Return the token ids of a text."""
        ...

    def decode(
        self, tokens: list[int], /, *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> Any:
        """Return the text of token ids."""
        ...


def pad_rows(rows: Sequence[Sequence[int]], width: int) -> Tokens:
    """Rows of token ids as one array of the given width, padded on the right."""
    array = np.full((len(rows), width), PADDING, dtype=np.int64)
    for index, row in enumerate(rows):
        array[index, : len(row)] = row
    return array


def check_completions(
    actions: Actions, width: int, end_token_ids: Tokens, vocabulary_size: int | None
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
    lengths = completion_lengths(array)
    misplaced = (array != PADDING) != (np.arange(width) < lengths[:, None])
    _reject_rows(array, misplaced, "-1 only after its end")
    valid = array >= PADDING
    if vocabulary_size is not None:
        valid &= array < vocabulary_size
    _reject_rows(array, ~valid, f"token ids below {vocabulary_size or 'the vocabulary size'}")
    is_end = np.isin(array, end_token_ids)
    _reject_rows(
        array,
        is_end & (np.arange(width) != lengths[:, None] - 1),
        f"nothing after the end-of-sequence token ({_format_ids(end_token_ids)})",
    )
    _reject_rows(
        array,
        ((lengths < width) & ~is_end.any(axis=1))[:, None],
        f"an end-of-sequence token ({_format_ids(end_token_ids)}) last, because it is shorter "
        f"than max_new_tokens",
    )
    return array


def completion_lengths(actions: Tokens) -> Integers:
    """The number of tokens of each completion, including its end-of-sequence token."""
    return np.asarray(np.count_nonzero(actions != PADDING, axis=1), dtype=np.int64)


def are_cut_off(actions: Tokens, end_token_ids: Tokens) -> Booleans:
    """Which completions have no end-of-sequence token, so were cut off at the full width."""
    return np.asarray(~np.isin(actions, end_token_ids).any(axis=1))


def content_tokens(row: Tokens, end_token_ids: Tokens) -> list[int]:
    """The tokens of one completion without its end-of-sequence token and padding."""
    return [int(token) for token in row if token != PADDING and token not in end_token_ids]


def decode_completions(
    actions: Tokens, tokenizer: Tokenizer | None, end_token_ids: Tokens
) -> list[str]:
    """The text of each completion, without its end-of-sequence token."""
    if tokenizer is None:
        raise ValueError("tokenizer is None: a tokenizer is needed to decode token ids")
    return [decode_text(tokenizer, content_tokens(row, end_token_ids)) for row in actions]


def encode_completions(
    texts: Sequence[str], tokenizer: Tokenizer | None, width: int, end_token_ids: Tokens
) -> Tokens:
    """Texts as finished completions, each followed by the first end-of-sequence token.

    Assumes that the texts were generated as these very tokens; the same text in other tokens is a
    different action. A text that changes when encoded and decoded is refused, as is one that
    contains an end-of-sequence token.
    """
    if isinstance(texts, (str, bytes)):
        raise TypeError(f"texts must be a sequence of strings, got {texts!r:.80}")
    rows = []
    for index, text in enumerate(texts):
        row = [*encode_text(tokenizer, text, f"texts[{index}]"), int(end_token_ids[0])]
        if np.isin(row[:-1], end_token_ids).any():
            raise ValueError(
                f"texts[{index}] contains an end-of-sequence token "
                f"({_format_ids(end_token_ids)}), which is added automatically: {_shorten(text)}"
            )
        if len(row) > width:
            raise ValueError(
                f"texts[{index}] has {len(row)} tokens including its end-of-sequence token, more "
                f"than max_new_tokens = {width}"
            )
        rows.append(row)
    return pad_rows(rows, width)


def encode_text(
    tokenizer: Tokenizer | None, text: str, name: str, *, add_special_tokens: bool = False
) -> list[int]:
    """The token ids of a text, which must decode to the same text."""
    if tokenizer is None:
        raise ValueError(f"{name} is a text but tokenizer is None: pass token ids or a tokenizer")
    encoded = tokenizer.encode(text, add_special_tokens=add_special_tokens)
    tokens = [int(token) for token in encoded]
    decoded = decode_text(tokenizer, tokens)
    if decoded != text and not (add_special_tokens and decoded.endswith(text)):
        raise ValueError(
            f"the tokenizer does not preserve {name}: {_shorten(text)} became {_shorten(decoded)}. "
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
    return str(
        tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
    )


def as_end_token_ids(eos_token_id: int | Sequence[int] | None) -> Tokens:
    """One or several end-of-sequence token ids as an array; there must be at least one."""
    if eos_token_id is None or np.size(eos_token_id) == 0:
        raise ValueError(
            "there is no end-of-sequence token: neither the model nor the tokenizer defines one, "
            "and without it no completion ends. Pass eos_token_id"
        )
    end_token_ids = np.atleast_1d(np.asarray(eos_token_id))
    kind, dimensions = end_token_ids.dtype.kind, end_token_ids.ndim
    if kind not in "iu" or dimensions != 1 or end_token_ids.min() < 0:
        raise TypeError(f"eos_token_id must be one or several token ids, got {eos_token_id!r}")
    return end_token_ids.astype(np.int64)


def _reject_rows(array: Tokens, wrong: Booleans, expected: str) -> None:
    if wrong.any():
        index = int(np.argmax(wrong.any(axis=1)))
        tokens = [int(token) for token in array[index] if token != PADDING]
        raise ValueError(
            f"actions[{index}] is not a completion of this policy: expected {expected}, got "
            f"{tokens} ({int(wrong.any(axis=1).sum())} such row(s) in {len(array)})"
        )


def _format_ids(token_ids: Tokens) -> str:
    return ", ".join(map(str, token_ids.tolist()))


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
