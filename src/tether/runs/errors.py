"""What can go wrong in a run, apart from invalid arguments."""

from __future__ import annotations


class StoreError(OSError):
    """The store could not be read or written; nothing was stored unless the message says so."""


class TamperedError(StoreError):
    """An event in the store is not as it was written, or does not follow from those before it."""


class FinalLossError(ValueError):
    """A loss was reported a second time with another value: the first one is final."""


class ChangedPolicyError(ValueError):
    """A policy is not the one that the run has stored under its name."""


class RoundTakenError(RuntimeError):
    """Another process has begun this round meanwhile."""


class RoundOverError(RuntimeError):
    """The round is over: actions are taken in the present one."""


class LossesMissingError(RuntimeError):
    """Too few losses have arrived to calibrate the next round."""
