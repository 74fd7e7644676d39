"""Text from files, stores and errors, made safe to show: no character acts on what shows it.

Control characters can move a terminal's cursor, change its colors or send it commands; marks of
writing direction reorder what is read; lone surrogates cannot be written at all. Each of them is
shown as its escape sequence, as Python writes it.
"""

from __future__ import annotations

import re

_ACTING = (
    "\x00-\x1f\x7f-\x9f"  # control characters: C0, DEL and C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks of writing direction
    "\u2028\u2029"  # separators of lines and paragraphs
    "\ud800-\udfff"  # surrogates
)
_ACTING_IN_A_LINE = re.compile(f"[{_ACTING}]")
_ACTING_IN_LINES = re.compile(f"(?![\n\t])[{_ACTING}]")


def visible(text: str) -> str:
    r"""One line of text with every character that could act escaped, line breaks included.

    >>> print(visible("a\x1b[31m\nb"))
    a\x1b[31m\nb
    """
    return _ACTING_IN_A_LINE.sub(_escaped, text)


def visible_lines(text: str) -> str:
    r"""Like `visible`, for text of several lines: line breaks and tabs stay.

    >>> print(visible_lines("a\x1b[31m\nb"))
    a\x1b[31m
    b
    """
    return _ACTING_IN_LINES.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")
