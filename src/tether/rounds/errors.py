"""What can go wrong in a run, beside bad input."""

from __future__ import annotations


class StoreError(OSError):
    """The store could not be read or written; nothing of what was being written is kept."""


class RoundTakenError(RuntimeError):
    """Another process has begun this round already."""


class RoundOverError(RuntimeError):
    """A later round has begun, and this one takes no more actions."""


class LossesMissingError(RuntimeError):
    """Too few losses have arrived to calibrate on."""
