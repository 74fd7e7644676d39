"""What can go wrong in a run, apart from invalid arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class StoreError(OSError):
    """The store could not be read or written; nothing of the failed call was stored."""


class NoStoreError(StoreError):
    """There is no store, or nothing in it, and none was to be created."""


class SpoolInUseError(StoreError):
    """Another process has the spool."""


class ClosedError(StoreError):
    """The run was closed by this process."""


class TamperedError(StoreError):
    """The store holds something that tether did not write, or lacks something that it did."""


@contextmanager
def as_tampering(what: str) -> Iterator[None]:
    """Errors of reading something that tether cannot have written, as a `TamperedError`."""
    try:
        yield
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise TamperedError(
            f"{what} has something that tether cannot have written: {error!r:.200}"
        ) from error


class FinalLossError(ValueError):
    """Losses of actions that have another one already; `ids` are those of the actions."""

    def __init__(self, message: str, ids: Sequence[int]) -> None:
        super().__init__(message)
        self.ids = tuple(ids)


class KeyUsedError(ValueError):
    """An idempotency key that was used for other contexts."""


class ChangedPolicyError(ValueError):
    """A policy that scores stored actions otherwise than it did when they were stored."""


class RoundTakenError(RuntimeError):
    """Another process has already begun this round."""


class RoundOverError(RuntimeError):
    """A later round has begun, and this one accepts no more actions."""


class LossesMissingError(RuntimeError):
    """Too few losses have arrived to calibrate on.

    Parameters
    ----------
    message : str
        What is missing, and what to do about it in Python.
    counted : str, optional
        What is missing alone; the message by default.
    """

    def __init__(self, message: str, counted: str = "") -> None:
        super().__init__(message)
        self.counted = counted or message
