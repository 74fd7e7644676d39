"""Who took an action, in words."""

from __future__ import annotations


def served_by(number: int) -> str:
    """The safe policy for 0; otherwise that of a round."""
    return f"round {number}" if number else "safe"
