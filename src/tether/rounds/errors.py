"""What can go wrong in a run, beside bad input."""

from __future__ import annotations


class StoreError(OSError):
    """The store could not be read or written; nothing of what was being written is kept."""


class RoundTaken(RuntimeError):
    """Another process has begun this round already."""


class RoundOver(RuntimeError):
    """A later round has begun, and this one takes no more actions."""


class LossesMissing(RuntimeError):
    """Too few losses have arrived to calibrate on."""
