"""The condition: the calibrated risk is at most alpha, written as sums that can be compared.

With weights w_i for the rows and w for the test point, which is given the worst loss B,

    (Σ l_i·w_i + B·w) / (Σ w_i + w) ≤ α    ⟺    Σ (l_i − α)·w_i + (B − α)·w ≤ 0.

Rows with a loss above alpha and the test point push against the rows below alpha; ties pass, by the
tolerance of `tether._core.ties`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether._core.ties import TOLERANCE
from tether._core.types import Floats
from tether.control.families import Mix
from tether.control.problem import Weights
from tether.control.solvers.mix import Lines
from tether.control.solvers.segments import Segments, Terms, kept
from tether.control.solvers.weight_bounds import between


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
        self.weights = weights
        self.amounts = constraint.amounts(weights.log.loss[constraint.name])
        self.against = np.flatnonzero(self.amounts > 0)
        self.speaking = np.flatnonzero(self.amounts < 0)
        with np.errstate(divide="ignore"):
            self.log_amounts = np.log(np.abs(self.amounts))
        self.log_worst = float(np.log(constraint.bound - constraint.alpha))

    def __call__(self, log_beta: float) -> float:
        """The excess at one beta."""
        return self.between(log_beta, log_beta)

    def between(self, left: float, right: float, without: str | None = None) -> float:
        """The excess, from above, while log beta moves from left to right.

        `without` takes out the row that is heaviest: "speaking" for the condition or "against" it.
        """
        low, high, test = between(self.weights, left, right)
        against = self.log_amounts[self.against] + high[self.against]
        speaking = self.log_amounts[self.speaking] + low[self.speaking]
        log_against, log_speaking = _log_sum(against, self.log_worst + test), _log_sum(speaking)
        if without == "speaking" and len(speaking):
            heaviest = self.log_amounts[self.speaking] + high[self.speaking]
            log_speaking = _log_less(log_speaking, float(heaviest.max()))
        if without == "against" and len(against):
            heaviest = self.log_amounts[self.against] + low[self.against]
            log_against = _log_less(log_against, float(heaviest.max()))
        # With nothing that speaks for it, a condition has not passed.
        return np.inf if log_speaking == -np.inf else log_against - log_speaking

    def without_each(self, log_beta: float) -> Floats:
        """P − N without each row in turn, on some scale: positive where the condition fails."""
        rows, test = self.weights.at(log_beta)
        against = _log_sum((self.log_amounts + rows)[self.against], self.log_worst + test)
        speaking = _log_sum((self.log_amounts + rows)[self.speaking])
        top = max(against, speaking)
        own = np.sign(self.amounts) * np.exp(self.log_amounts + rows - top)
        return np.asarray(np.exp(against - top) - np.exp(speaking - top) - own)

    def certain_failure(self, hi: float) -> float:
        """A point past hi where the analytic test weight, growing like beta, must fail."""
        rows, test = self.weights.at(hi)
        room = _log_sum((self.log_amounts + rows)[self.speaking]) - self.log_worst - test
        return hi + max(0.0, room) + 1.0 if np.isfinite(room) else hi


def _log_sum(values: Floats, more: float = -np.inf) -> float:
    """Log of a sum of exponentials."""
    top = max(float(values.max(initial=-np.inf)), more)
    if top == -np.inf:
        return top
    return top + float(np.log(np.exp(values - top).sum() + np.exp(more - top)))


def _log_less(log_sum: float, part: float) -> float:
    """Log of a sum with one part taken off; −inf where nothing but rounding is left."""
    rest = -np.expm1(min(part - log_sum, 0.0))
    return log_sum + float(np.log(rest)) if rest > 1e-14 else -np.inf
