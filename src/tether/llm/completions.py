"""Completions: the actions of a language model, as arrays.

A completion is a row of token ids as wide as the longest that may be: the tokens that were
generated, the end-of-sequence token with them, and then −1. A row without an end fills the whole
width: generation was cut off, which is an outcome of its own and not an unfinished one. So rows can
be compared, stored and concatenated like any numbers, and their probabilities sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]

FILL = -1
"""What stands after the end of a completion, and in a prompt where there is no token."""


def filled(rows: Sequence[Sequence[int]], width: int) -> Tokens:
    """Rows of token ids as one array of that width."""
    array = np.full((len(rows), width), FILL, dtype=np.int64)
    for place, row in enumerate(rows):
        array[place, : len(row)] = row
    return array


def checked(actions: Any, width: int, ends: Tokens, vocabulary: int | None) -> Tokens:
    """Completions that this width and these ends can produce, or an error that names the row.

    Anything else (tokens after the end, a short row without one) is no outcome of the policy: a
    score for it would be a number about another event.
    """
    array = np.asarray(actions)
    if array.dtype.kind not in "iu":
        raise TypeError(f"actions must hold token ids, got an array of dtype {array.dtype}")
    if array.ndim != 2 or array.shape[1] != width:
        raise ValueError(
            f"actions must have a row of max_new_tokens = {width} token ids for each completion "
            f"(-1 after its end), got shape {array.shape}"
        )
    array = array.astype(np.int64, copy=False)
    size = lengths(array)
    _refuse(array, (array != FILL) != (np.arange(width) < size[:, None]), "-1 only after its end")
    known = array >= FILL if vocabulary is None else (array >= FILL) & (array < vocabulary)
    _refuse(array, ~known, f"token ids below {vocabulary or 'the size of the vocabulary'}")
    ending = np.isin(array, ends)
    _refuse(
        array,
        ending & (np.arange(width) != size[:, None] - 1),
        f"nothing after the end-of-sequence token ({_shown(ends)})",
    )
    _refuse(
        array,
        ((size < width) & ~ending.any(axis=1))[:, None],
        f"an end-of-sequence token ({_shown(ends)}) last, as it is shorter than max_new_tokens",
    )
    return array


def lengths(actions: Tokens) -> Tokens:
    """How many tokens each completion has, its end included."""
    return np.asarray(np.count_nonzero(actions != FILL, axis=1), dtype=np.int64)


def cut_off(actions: Tokens, ends: Tokens) -> NDArray[np.bool_]:
    """Which completions were cut off at the full width, without an end."""
    return np.asarray(~np.isin(actions, ends).any(axis=1))


def texts(actions: Tokens, tokenizer: Any, ends: Tokens) -> list[str]:
    """What people read: the tokens decoded, without the end."""
    if tokenizer is None:
        raise ValueError("there is no tokenizer, and only it knows the texts of token ids")
    kept = [[int(token) for token in row if token != FILL and token not in ends] for row in actions]
    return [decoded(tokenizer, row) for row in kept]


def from_texts(answers: Sequence[str], tokenizer: Any, width: int, ends: Tokens) -> Tokens:
    """Texts from elsewhere as finished completions, each with the first end after it.

    Assumes that who wrote them generated these very tokens; where the same text has other tokens,
    they are another action. A text that comes back changed from the tokenizer is refused, and so is
    one with an end in it.
    """
    if isinstance(answers, (str, bytes)):
        raise TypeError(f"answers must be texts, one for each completion, got {answers!r:.80}")
    rows = []
    for place, answer in enumerate(answers):
        row = [*encoded(tokenizer, answer, f"answers[{place}]"), int(ends[0])]
        if np.isin(row[:-1], ends).any():
            raise ValueError(
                f"answers[{place}] has an end-of-sequence token ({_shown(ends)}) in it, and one is "
                f"added: {_short(answer)}"
            )
        if len(row) > width:
            raise ValueError(
                f"answers[{place}] has {len(row)} tokens with its end, more than "
                f"max_new_tokens = {width}"
            )
        rows.append(row)
    return filled(rows, width)


def encoded(tokenizer: Any, text: str, name: str, *, special: bool = False) -> list[int]:
    """A text's token ids, which must give the same text back."""
    if tokenizer is None:
        raise ValueError(f"{name} is a text, and there is no tokenizer: pass token ids or one")
    found = [int(token) for token in tokenizer.encode(text, add_special_tokens=special)]
    back = decoded(tokenizer, found)
    if back != text and not (special and back.endswith(text)):
        raise ValueError(
            f"the tokenizer does not give {name} back: {_short(text)} became {_short(back)}. Its "
            f"score would be that of another text; pass token ids, or a text that it keeps"
        )
    start = getattr(tokenizer, "bos_token_id", None)
    if back != text and found[:2] == [start, start]:
        raise ValueError(
            f"{name} begins with {tokenizer.bos_token!r}, and add_special_tokens adds another: "
            f"leave it to one of them"
        )
    return found


def decoded(tokenizer: Any, tokens: Sequence[int]) -> str:
    """Tokens as text, with every special token and no tidying."""
    return str(
        tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
    )


def end_tokens(value: Any) -> Tokens:
    """One or several end-of-sequence ids as an array; an error where there is none."""
    if value is None or np.size(value) == 0:
        raise ValueError(
            "there is no end-of-sequence token: neither the model nor the tokenizer has one, and "
            "without it no completion ever ends. Pass eos_token_id"
        )
    ends = np.atleast_1d(np.asarray(value))
    if ends.dtype.kind not in "iu" or ends.ndim != 1 or ends.min() < 0:
        raise TypeError(f"eos_token_id must be a token id or several, got {value!r}")
    return ends.astype(np.int64)


def whole(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def _refuse(array: Tokens, wrong: NDArray[np.bool_], expected: str) -> None:
    if wrong.any():
        place = int(np.argmax(wrong.any(axis=1)))
        shown = [int(token) for token in array[place] if token != FILL]
        raise ValueError(
            f"actions[{place}] is no completion of this policy: expected {expected}, got {shown} "
            f"({int(wrong.any(axis=1).sum())} such row(s) in {len(array)})"
        )


def _shown(ends: Tokens) -> str:
    return ", ".join(map(str, ends.tolist()))


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
