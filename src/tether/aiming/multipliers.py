"""How hard to tilt a policy by predicted losses so that it expects to lose what is tolerated.

A policy π is tilted to π_λ(a | x) ∝ π(a | x)·exp(−Σ_j λ_j·l̂_j(x, a)). Of all policies whose mean
predicted losses over some contexts are at most alpha_j, the nearest one to π in mean relative
entropy, KL(· ‖ π), is π_λ with the λ ≥ 0 that minimizes the convex function

    D(λ) = mean_x log Σ_a π(a | x)·exp(−Σ_j λ_j·l̂_j(x, a)) + Σ_j λ_j·alpha_j

whose gradient is alpha_j minus the predicted loss of π_λ. So at the minimum every predicted loss is
alpha_j, or below it with λ_j = 0. With one loss the predicted loss falls in λ, and λ is its root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether.sampling.discrete import log_softmax

MAX_TILT = 50.0
"""The most nats by which a multiplier may tilt: λ times the range of the predicted loss."""
REACHED_WITHIN = 1e-3
"""By how much, relative to alpha, a predicted loss may be above it and count as reached."""


@dataclass(frozen=True)
class Multipliers:
    """The multiplier of each loss, and what the policy is predicted to lose.

    Parameters
    ----------
    values : numpy.ndarray of float
        One multiplier per loss, at least 0.
    before : numpy.ndarray of float
        The mean predicted losses of the policy.
    after : numpy.ndarray of float
        Those of the tilted policy.
    reached : bool
        Whether every one of them is at most its alpha; False if no policy on the same actions, or
        none within `MAX_TILT` nats, is predicted to lose so little.
    """

    values: Floats
    before: Floats
    after: Floats
    reached: bool


def solve_multipliers(log_probabilities: Floats, predicted: Floats, alphas: Floats) -> Multipliers:
    """Find the smallest tilt after which no predicted loss exceeds its alpha.

    Parameters
    ----------
    log_probabilities : ndarray of shape (contexts, actions)
        The policy, normalized in each row; −inf for an action that it never takes.
    predicted : ndarray of shape (losses, contexts, actions)
        The predicted losses.
    alphas : ndarray of shape (losses,)
        What is tolerated of each.

    Returns
    -------
    Multipliers
        The multipliers, and the predicted losses before and after.
    """
    ranges = np.array([_range(log_probabilities, each) for each in predicted])
    limits = np.divide(MAX_TILT, ranges, out=np.zeros(len(ranges)), where=ranges > 0)

    def losses(values: Floats) -> Floats:
        return mean_losses(tilted(log_probabilities, predicted, values), predicted)

    none = np.zeros(len(alphas))
    before = losses(none)
    if (before <= alphas).all():
        return Multipliers(none, before, before, True)
    values = (
        np.array([_root(lambda value: float(losses(np.array([value]))[0]), alphas[0], limits[0])])
        if len(alphas) == 1
        else _least_dual(log_probabilities, predicted, alphas, limits)
    )
    after = losses(values)
    return Multipliers(values, before, after, bool((after <= alphas * (1 + REACHED_WITHIN)).all()))


def tilted(log_probabilities: Floats, predicted: Floats, values: Floats) -> Floats:
    """The log-probabilities after the tilt, normalized in each row."""
    return log_softmax(log_probabilities - np.tensordot(values, predicted, 1))


def mean_losses(log_probabilities: Floats, predicted: Floats) -> Floats:
    """The mean predicted losses of a policy over its contexts."""
    chances = np.exp(log_probabilities)
    return np.asarray(np.einsum("xa,jxa->j", chances, predicted) / len(chances))


def _range(log_probabilities: Floats, predicted: Floats) -> float:
    """The largest difference of predicted losses between actions of one context."""
    possible = log_probabilities > -np.inf
    highest = np.where(possible, predicted, -np.inf).max(axis=1)
    lowest = np.where(possible, predicted, np.inf).min(axis=1)
    return float((highest - lowest).max())


def _root(loss: Callable[[float], float], alpha: float, limit: float) -> float:
    """Where a loss that falls in its argument reaches alpha; the limit if it does not before."""
    from scipy.optimize import brentq

    if loss(limit) >= alpha:
        return limit
    return float(brentq(lambda value: loss(value) - alpha, 0.0, limit, xtol=1e-12 * limit))


def _least_dual(
    log_probabilities: Floats, predicted: Floats, alphas: Floats, limits: Floats
) -> Floats:
    """The minimum of D within the limits, in units in which every limit is 1."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    def dual(units: Floats) -> tuple[float, Floats]:
        values = units * limits
        scores = log_probabilities - np.tensordot(values, predicted, 1)
        log_norm = logsumexp(scores, axis=1, keepdims=True)
        gradient = alphas - mean_losses(scores - log_norm, predicted)
        return float(log_norm.mean() + values @ alphas), gradient * limits

    start = np.full(len(alphas), 1.0 / MAX_TILT)
    found = minimize(
        dual,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(alphas),
        options={"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10},
    )
    return np.asarray(found.x * limits)
