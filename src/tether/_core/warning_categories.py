"""The categories of the warnings that tether gives, for `warnings.filterwarnings`."""

from __future__ import annotations


class TetherWarning(UserWarning):
    """Any warning of tether; filter by it to silence, or raise, all of them.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("ignore", category=TetherWarning)
    """


class AssumptionWarning(TetherWarning):
    """What a promise assumes looks violated, such as rows that the safe policy did not draw.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("error", category=AssumptionWarning)
    """


class DurabilityWarning(TetherWarning):
    """A database is set up so that it may lose what it has confirmed.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("error", category=DurabilityWarning)
    """


class PromiseWarning(TetherWarning):
    """No useful promise can be made, so the safe policy serves, or nothing is selected.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.filterwarnings("ignore", category=PromiseWarning)
    """
