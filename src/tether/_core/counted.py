"""Counts with their nouns, in the singular and the plural."""

from __future__ import annotations


def counted(count: int | float, singular: str, plural: str | None = None) -> str:
    """Write a count with its noun.

    >>> counted(1, "item"), counted(1200, "item"), counted(0, "loss", "losses")
    ('1 item', '1,200 items', '0 losses')
    """
    noun = singular if count == 1 else plural or f"{singular}s"
    return f"{count:,} {noun}"
