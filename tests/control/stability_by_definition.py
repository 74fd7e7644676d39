"""The stability of a calibration by its definition: the beta without each row, one by one."""

from functools import cache

import numpy as np

from tether.control.families import LAST_LOG_BETA_OF_SAFE

MOST_ABOVE = 1.06
"""How far above the definition a bound on it may be, in small logs."""


def log_sum(values):
    top = values.max(initial=-np.inf)
    return top + np.log(np.exp(values - top).sum()) if np.isfinite(top) else top


def even_points(problem, count=200):
    """Even points of the range of a search, and both sides of β = 1, where weights may jump."""
    lo, hi = problem.search_range()
    at_one = [point for point in (LAST_LOG_BETA_OF_SAFE, 0.0) if lo < point < hi]
    further = hi + np.linspace(0, 30, count) if problem.test_weight.grows else []
    return np.unique(np.concatenate((np.linspace(lo, hi, count), at_one, further))).tolist()


def largest_without(amounts, log_worst, row, log_weights, points):
    """The first crossing of P over N without a row: at some points, then by halving."""
    others = np.arange(len(amounts)) != row
    above, below = others & (amounts > 0), others & (amounts < 0)
    with np.errstate(divide="ignore"):
        sizes = np.log(np.abs(amounts))

    def fails(log_beta):
        rows, test = log_weights(log_beta)
        logs = sizes + rows
        return log_sum(np.append(logs[above], test + log_worst)) > log_sum(logs[below])

    first = next((k for k, point in enumerate(points) if fails(point)), None)
    if first is None:
        return np.inf
    if first == 0:
        return -np.inf
    left, right = points[first - 1], points[first]
    while right - left > 1e-10 * max(1.0, abs(left)) and left < (left + right) / 2 < right:
        middle = (left + right) / 2
        left, right = (left, middle) if fails(middle) else (middle, right)
    return left


def stability_by_definition(found, points=None):
    """The change of each row's own weight, at the largest beta without it."""
    problem = found._problem
    points = even_points(problem) if points is None else points
    lo, hi = problem.search_range()
    log_weights = cache(problem.log_weights)
    rows, test = log_weights(float(np.clip(found.log_beta, lo, hi)))
    log_total = log_sum(np.append(rows, test))
    expected = 0.0
    for row in range(len(rows)):
        own = min(
            largest_without(
                each.signed(problem.log.loss[each.name]),
                np.log(each.worst),
                row,
                log_weights,
                points,
            )
            for each in found.constraints
        )
        moved = log_weights(float(np.clip(own, lo, hi)))[0][row]
        expected += abs(np.exp(moved - log_total) - np.exp(rows[row] - log_total))
    return expected


def assert_bounds_the_definition(stated, found, points=None):
    """A stated stability is not below the definition, and not far above it."""
    expected = stability_by_definition(found, points)
    assert expected * (1 - 1e-9) - 1e-12 <= stated <= expected * MOST_ABOVE + 1e-4
