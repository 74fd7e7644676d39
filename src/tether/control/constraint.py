"""Constraints: a loss, its tolerated expectation and its upper bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constraint:
    """One loss, how much of it is tolerated in expectation, and the most it can be.

    Parameters
    ----------
    name : str
        The name of the loss in the log.
    alpha : float
        The tolerated expected loss.
    bound : float
        The largest possible loss B.

    Examples
    --------
    >>> Constraint("loss", alpha=0.1, bound=1.0).alpha
    0.1
    """

    name: str
    alpha: float
    bound: float
