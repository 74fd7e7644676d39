"""Logs that refute what they state, so that a calibration on them does not hold.

A log states the probabilities with which its actions were taken, that each row is an observation of
its own and, of a shortlist, that the candidates are drawn as the actions were. Where its own rows
refute one of these, nothing useful is promised, whatever is computed from it. A warning that says
so is a `Refutation`; beside any other warning a promise stands under its assumptions.
"""

from __future__ import annotations

REFUTED_WORDS = "a calibration on this log does not hold"
"""The consequence, in the words of every summary, statement and warning."""


class Refutation(str):
    """A warning that refutes what a log states, in words."""

    __slots__ = ()


def refute(found: str) -> Refutation:
    """The consequence, and what was found."""
    return Refutation(f"{REFUTED_WORDS}: {found}")
