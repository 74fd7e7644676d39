"""The largest beta that is certified with high probability over a log in parts."""

from __future__ import annotations

from collections.abc import Sequence

from tether.control.constraint import Constraint
from tether.control.high_probability import CertifiedBeta
from tether.control.parts.problem import ProblemInParts


def certified_beta_in_parts(
    problem: ProblemInParts, constraints: Sequence[Constraint], confidence: float
) -> CertifiedBeta:
    """What `certified_beta` finds in memory."""
    raise NotImplementedError("a confidence needs a log in memory")
