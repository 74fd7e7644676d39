"""HTML elements from function calls; all text is escaped unless it is `Markup` already.

Control characters and marks of writing direction in text are shown as escape sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TypeAlias

from tether._core.words import visible_lines

VOID_TAGS = {"meta", "link", "br", "hr", "img", "input", "col"}
"""Elements without content and without a closing tag."""

Content: TypeAlias = "str | float | Sequence[Content] | None"
"""What can be put into an element; None and False add nothing."""


class Markup(str):
    """Text that is HTML already; any other text is escaped when it is put into an element."""

    __slots__ = ()


def join(*parts: Content) -> Markup:
    """Concatenate parts: markup as it is, sequences in order, None and False left out."""
    return Markup("".join(_as_html(part) for part in parts))


def element(tag: str, *children: Content, **attributes: str | float | None) -> Markup:
    """Build one element; `class_` and `data_round` become class and data-round.

    An attribute that is True has no value, one that is None or False is left out.

    >>> element("p", "1 < 2", class_="note", hidden=True)
    '<p class="note" hidden>1 &lt; 2</p>'
    """
    attribute_text = "".join(
        f" {name}" if value is True else f' {name}="{_escape(value)}"'
        for name, value in (
            (key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
        )
        if value is not None and value is not False
    )
    if tag in VOID_TAGS:
        return Markup(f"<{tag}{attribute_text}>")
    return Markup(f"<{tag}{attribute_text}>{join(*children)}</{tag}>")


def _as_html(part: Content) -> str:
    if part is None or part is False:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, (list, tuple)):
        return join(*part)
    return _escape(part)


def _escape(text: object) -> str:
    """Text as HTML, with control characters as escape sequences."""
    return escape(visible_lines(str(text)))
