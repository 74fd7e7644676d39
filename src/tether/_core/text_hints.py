"""What to do about text where numbers are expected, for errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from tether._core.plain_arrays import is_missing
from tether._core.shown import few

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
PERCENTAGE = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)\s*%\s*")
NO_WORDS = frozenset({"", "nan", "na", "n/a", "null", "<na>"})
"""What files write for a value that is missing."""
MOST_WORDS_LOOKED_AT = 1000
"""Among so many values the words of a column are looked for."""


def number_hint(value: Any) -> str:
    """How a percentage, or a number with a decimal comma, is written; empty for anything else.

    >>> number_hint("2,5 %"), number_hint("0,5"), number_hint("three")
    (': write 2,5 % as 0.025', ': write decimals with a point, 0.5', '')
    """
    if isinstance(value, str) and PERCENTAGE.fullmatch(value):
        number = float(value.strip().rstrip("%").strip().replace(",", "."))
        return f": write {value.strip()} as {number / 100:.12g}"
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
        return f": write decimals with a point, {value.strip().replace(',', '.')}"
    return ""


def loss_hint(values: Iterable[Any]) -> str:
    """How losses that are words become numbers; empty if there are no words."""
    return _word_hint(
        values,
        "a loss is a number, 0 for a good outcome and more for harm; write 1 for the word that "
        "means harm and 0 for the one that does not",
        "missing, which is not harmless: keep them missing (NaN), and do not write 0 for them",
    )


def reward_hint(values: Iterable[Any]) -> str:
    """How rewards that are words become numbers; empty if there are no words."""
    return _word_hint(
        values,
        "a reward is a number; write 1 for the word that means success and 0 for the one that "
        "does not",
        "missing",
    )


def _word_hint(values: Iterable[Any], numbers: str, missing: str) -> str:
    """What to write for words, with those of the first values, and how many values have none."""
    listed = list(values)
    texts = [each for each in listed[:MOST_WORDS_LOOKED_AT] if isinstance(each, str)]
    words = [each for each in dict.fromkeys(texts) if not _has_no_word(each)]
    if not words:
        return ""
    if hint := number_hint(words[0]):
        return hint
    if all(NUMBER.fullmatch(each) for each in words):
        return ": this is text; convert it to numbers, such as with pandas.to_numeric"
    hint = f": {numbers} (here: {few(np.array(words, dtype=object))})"
    unknown = sum(_has_no_word(each) for each in listed)
    if unknown:
        are = "is" if unknown == 1 else "are"
        hint += f"; {unknown:,} of {len(listed):,} values {are} {missing}"
    return hint


def _has_no_word(value: Any) -> bool:
    """Whether a value of a column of words is missing: NaN, None, or text that says so."""
    return value.strip().lower() in NO_WORDS if isinstance(value, str) else is_missing(value)
