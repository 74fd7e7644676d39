"""What can go wrong in a run, apart from invalid arguments."""

from __future__ import annotations


class StoreError(OSError):
    """The store could not be read or written; nothing of the failed call was stored."""


class TamperedError(StoreError):
    """The store holds something that tether did not write, or lacks something that it did."""


class RoundTakenError(RuntimeError):
    """Another process has already begun this round."""


class RoundOverError(RuntimeError):
    """A later round has begun, and this one accepts no more actions."""


class LossesMissingError(RuntimeError):
    """Too few losses have arrived to calibrate on."""
