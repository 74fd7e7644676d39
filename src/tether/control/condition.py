"""The condition: the calibrated risk is at most alpha, written as sums that can be compared.

With weights w_i for the rows and w for the test point, which is given the worst loss B,

    (Σ l_i·w_i + B·w) / (Σ w_i + w) ≤ α    ⟺    Σ (l_i − α)·w_i + (B − α)·w ≤ 0.

Rows with a loss above alpha and the test point push against the rows below alpha; ties pass, by the
tolerance of `tether._condition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tether._check import Floats
from tether._condition import TOLERANCE
from tether.control import search
from tether.control.exact_mix import Lines
from tether.control.families import Mix
from tether.control.segments import Segments, Terms, kept
from tether.control.weights import Weights


@dataclass(frozen=True)
class Constraint:
    """One loss, how much of it is tolerated in expectation, and the most it can be."""

    name: str
    alpha: float
    bound: float

    def amounts(self, loss: Floats) -> Floats:
        """L − α for each row; the negative ones count a trifle more, so that ties pass."""
        amounts = loss - self.alpha
        amounts *= np.where(amounts < 0, 1 + TOLERANCE, 1.0)
        return amounts

    def risk(self, weights: Weights, log_beta: float) -> float:
        """The calibrated risk of the tethered policy at one beta."""
        share, last = weights.shares(log_beta)
        return float((weights.log.loss[self.name] * share).sum() + self.bound * last)

    def risks(self, weights: Weights, log_beta: Floats) -> Floats:
        """The calibrated risk at many betas, in rising order.

        The condition's left side is linear in alpha: between an alpha of 0, where it is the sum of
        the losses, and of B, it falls by B times the sum of the weights.
        """
        if not weights.exact or not isinstance(weights.test_weight, str):
            return np.array([self.risk(weights, point) for point in log_beta])
        ends = [replace(self, alpha=alpha).terms(weights) for alpha in (0.0, self.bound)]
        if isinstance(weights.family, Mix):
            shift = weights.span[1]
            losses, less = (Lines.build(terms, shift).value(log_beta) for terms in ends)
        else:
            losses, less = (Segments.at(log_beta, kept(terms)).value for terms in ends)
        return np.asarray(self.bound * losses / (losses - less))

    def terms(self, weights: Weights) -> Terms:
        """The condition of clip without contexts, or of mix, as rows and tops (see `segments`).

        The first rows are the log's own, in order; amounts are on a scale that cannot overflow.
        """
        log, draws = weights.log, weights.draws
        worst = self.bound - self.alpha
        ratio = log.log_optimized - log.log_safe
        amount = self.amounts(log.loss[self.name])
        possible = slice(None) if draws.log_safe.min() > -np.inf else draws.log_safe > -np.inf
        safe = draws.log_safe[possible]
        top_ratio = draws.log_optimized[possible] - safe
        shift = 0.0
        top_amount = np.array([worst])
        if log.log_mix is not None:
            base, top_base = log.log_safe - log.log_mix, safe - draws.log_mix[possible]
            shift = float(max(base.max(), top_base.max(initial=-np.inf)))
            amount *= np.exp(base - shift)
            top_amount = worst * np.exp(top_base - shift)
        elif weights.test_weight == "empirical":
            top_ratio = top_ratio.max(initial=-np.inf, keepdims=True)
        if weights.test_weight == "empirical":
            return Terms(ratio, amount, top_ratio, top_amount)
        if weights.test_weight == "analytic":
            top = worst * np.exp(-shift) / (log.safe_share or 1.0)
            return Terms(ratio, amount, np.array([np.inf]), np.array([top]))
        top = worst * np.exp(-shift) * float(weights.test_weight)
        if isinstance(weights.family, Mix):
            return Terms(ratio, amount, np.zeros(1), np.array([top]))
        # A bound on weights that have their normalizer, and that is Σ min(ρ, β)·safe/mass.
        normalizer = top * np.exp(safe - draws.log_mass[possible])
        ratio, amount = np.append(ratio, top_ratio), np.append(amount, normalizer)
        return Terms(ratio, amount, np.empty(0), np.empty(0))


class Excess:
    """log P − log N along log beta: what pushes against the condition over what speaks for it.

    The condition passes where it is at most zero.
    """

    def __init__(self, constraint: Constraint, weights: Weights) -> None:
        amounts = constraint.amounts(weights.log.loss[constraint.name])
        self.weights = weights
        self.against = np.maximum(amounts, 0.0)
        self.speaking = np.maximum(-amounts, 0.0)
        self.worst = constraint.bound - constraint.alpha

    def parts(self, log_beta: float) -> tuple[float, float, Floats]:
        """P, N, and the share of the weight that each row has."""
        share, last = self.weights.shares(log_beta)
        against = float((self.against * share).sum() + self.worst * last)
        return against, float((self.speaking * share).sum()), share

    def __call__(self, log_beta: float) -> float:
        """Log P − log N."""
        return _log_quotient(*self.parts(log_beta)[:2])

    def without_heaviest(self, fewer: bool) -> Callable[[float], float]:
        """The same without the row that speaks most for the condition, or most against it."""

        def excess(log_beta: float) -> float:
            against, speaking, share = self.parts(log_beta)
            if fewer:
                return _log_quotient(against, speaking - float((self.speaking * share).max()))
            return _log_quotient(against - float((self.against * share).max()), speaking)

        return excess

    def without_each(self, log_beta: float) -> Floats:
        """P − N without each row in turn: positive where the condition then fails."""
        against, speaking, share = self.parts(log_beta)
        return against - speaking - (self.against - self.speaking) * share

    def slope(self, lo: float, hi: float) -> float:
        """The family's smoothness, or what serves the search in its place."""
        known = self.weights.family.smoothness
        return search.measured_slope(self, lo, hi) if known is None else known

    def certain_failure(self, hi: float) -> float:
        """A point past hi where the analytic test weight, growing like beta, must fail."""
        _, last = self.weights.shares(hi)
        _, speaking, _ = self.parts(hi)
        if speaking == 0 or last == 0:
            return hi
        return hi + max(0.0, float(np.log(speaking) - np.log(self.worst * last))) + 1.0


def _log_quotient(against: float, speaking: float) -> float:
    if speaking <= 0:
        return np.inf if against > 0 else 0.0
    return float(np.log(against / speaking)) if against > 0 else -np.inf
