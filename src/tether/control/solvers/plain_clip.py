"""The condition of clip in contexts as plain sums, where all its numbers fit into floats.

With ψ known in every context, a weight is min(ρ, β)/ψ·(safe/mixture). While log beta moves from
left to right, numerator and normalizer both rise, and both fall when divided by β, which bounds
each weight from both sides (see `tether.control.families`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from tether._core.types import Floats
from tether.control.context_draws import MAX_PLAIN_LOG, refuse_empty
from tether.control.densities import NormalizedDensities, make_room
from tether.control.families import Clip
from tether.control.solvers.plain_sums import Bound, Cells, PlainSums

if TYPE_CHECKING:
    from tether.control.problem import Problem


class PlainClip(PlainSums):
    """Sums of weights of clip, with ψ of every context as a plain number."""

    def __init__(self, problem: Problem, amounts: Floats, densities: NormalizedDensities) -> None:
        super().__init__(problem, amounts)
        self.normalizer = densities.clip_normalizer
        self._kept: dict[float, Floats] = {}

    @classmethod
    def build(cls, problem: Problem, amounts: Floats) -> Self | None:
        """None where the problem is another one, or its numbers leave the range of floats."""
        densities = problem.densities
        if not (
            isinstance(problem.family, Clip)
            and isinstance(densities, NormalizedDensities)
            and problem.log.contextual
            and densities.clip_normalizer.plain
        ):
            return None
        points = problem.candidates
        logs = (problem.log_ratio, problem.log_base, points.log_ratio, points.log_base)
        fits = all(_fits(np.asarray(part)) for part in logs)
        return cls(problem, amounts, densities) if fits else None

    def fits(self, left: float, right: float) -> bool:
        """Whether ψ at both ends is a plain number."""
        return self.normalizer.fits(left) and self.normalizer.fits(right)

    def bound(self, left: float, right: float) -> Bound:
        """Bounds from the monotone numerator min(ρ, β) and the monotone ψ(β)."""
        at_left, at_right = self._psi(left), self._psi(right)
        beta_left, beta_right = float(np.exp(left)), float(np.exp(right))
        width = float(np.exp(right - left))

        def bounds(ratio: Floats, cell: Cells) -> tuple[Floats, Floats]:
            lower = np.minimum(ratio, beta_left)
            lower /= at_right[cell]
            if left == right:
                return lower, lower
            upper = np.minimum(ratio, beta_right)
            upper /= at_left[cell]
            return np.maximum(lower, upper / width), np.minimum(upper, lower * width)

        return bounds

    def _psi(self, log_beta: float) -> Floats:
        if log_beta not in self._kept:
            make_room(self._kept)
            psi = self.normalizer.psi(log_beta)
            if not psi.all():
                with np.errstate(divide="ignore"):
                    refuse_empty(np.log(psi))
            self._kept[log_beta] = psi
        return self._kept[log_beta]


def _fits(logs: Floats) -> bool:
    """Whether exponentials can be multiplied as floats; −inf is zero."""
    lowest = logs.min(initial=0.0, where=logs > -np.inf)
    return bool(logs.max(initial=0.0) <= MAX_PLAIN_LOG and lowest >= -MAX_PLAIN_LOG)
