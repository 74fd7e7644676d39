"""HTML from plain calls: every text is escaped unless it was made here."""

from __future__ import annotations

from html import escape
from typing import Any

VOID = {"meta", "link", "br", "hr", "img", "input", "col"}


class Markup(str):
    """Text that is HTML already; any other text is escaped when it is put into an element."""

    __slots__ = ()


def join(*parts: Any) -> Markup:
    """Parts one after the other: markup as it is, sequences in order, None and False left out."""
    return Markup("".join(_written(part) for part in parts))


def element(tag: str, *children: Any, **attributes: Any) -> Markup:
    """One element; `class_` and `data_round` become class and data-round.

    An attribute of True stands alone, one of None or False is left out.

    >>> element("p", "1 < 2", class_="note", hidden=True)
    '<p class="note" hidden>1 &lt; 2</p>'
    """
    written = "".join(
        f" {name}" if value is True else f' {name}="{escape(str(value))}"'
        for name, value in (
            (key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
        )
        if value is not None and value is not False
    )
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def _written(part: Any) -> str:
    if part is None or part is False:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, (list, tuple)):
        return join(*part)
    return escape(str(part))
