"""The definitions, computed directly: slow, in extended precision, sharing no code with tether.

Everything here follows the formulas as they are written, one beta at a time or on a grid, so that
the fast code has something to be compared with.
"""

from __future__ import annotations

import numpy as np
import pytest

LONG = np.longdouble


def clip_weights(safe, optimized, mix, log_beta):
    """min(optimized, β·safe)/mix for each row (axis 0) and beta (axis 1), without a normalizer."""
    safe, optimized, mix = (
        np.asarray(part, dtype=LONG)[:, None] for part in (safe, optimized, mix)
    )
    return np.exp(np.minimum(optimized, safe + np.asarray(log_beta, dtype=LONG)) - mix)


def mix_weights(safe, optimized, mix, log_beta):
    """(safe + β·optimized)/(1 + β)/mix."""
    safe, optimized, mix = (
        np.asarray(part, dtype=LONG)[:, None] for part in (safe, optimized, mix)
    )
    beta = np.exp(np.asarray(log_beta, dtype=LONG))
    return (np.exp(safe - mix) + beta * np.exp(optimized - mix)) / (1 + beta)


def risk(made, log_beta, bound=1.0, weights=clip_weights, test=None):
    """The calibrated risk on a grid of log beta; `test` replaces the largest weight of a draw."""
    grid = np.atleast_1d(log_beta)
    rows = weights(made["safe"], made["optimized"], made["mix"], grid)
    if test is None:
        last = weights(made["draw_safe"], made["draw_optimized"], made["draw_mix"], grid).max(
            axis=0
        )
    else:
        last = test(rows, grid)
    loss = np.asarray(made["loss"], dtype=LONG)[:, None]
    return ((loss * rows).sum(axis=0) + bound * last) / (rows.sum(axis=0) + last)


def contextual_risk(loss, row_weights, normalizers, test, bound=1.0):
    """The calibrated risk with one normalizer per row: weights and normalizers on a grid."""
    rows = row_weights / normalizers
    return ((loss[:, None] * rows).sum(axis=0) + bound * test) / (rows.sum(axis=0) + test)


def largest_passing(risks, grid, alpha, tolerance=1e-12):
    """The last grid point before the first failure; −inf if the first fails, +inf if none does."""
    failing = np.flatnonzero(risks > alpha * (1 + tolerance))
    if len(failing) == 0:
        return np.inf
    return grid[failing[0] - 1] if failing[0] else -np.inf


WEIGHTS = {"clip": clip_weights, "mix": mix_weights}


def assert_supremum(made, found, alpha, family, points=2000, test=None):
    """Risk is at most alpha everywhere below beta and above alpha just past it."""
    ratios = np.concatenate(
        (made["optimized"] - made["safe"], made["draw_optimized"] - made["draw_safe"])
    )
    lo, hi = ratios.min() - 3, ratios.max() + 3
    if family == "mix":
        lo, hi = -hi - 40, 40 - lo
    weights = WEIGHTS[family]
    reached = min(found.log_beta, hi)
    if found.exists:
        below = np.linspace(min(lo, reached - 1), reached, points)
        assert (risk(made, below, weights=weights, test=test) <= alpha * (1 + 1e-9)).all()
    else:
        assert risk(made, lo, weights=weights, test=test)[0] > alpha * (1 - 1e-9)
    if np.isfinite(found.log_beta):
        past = found.log_beta + np.linspace(1e-9, 1e-5, 30)
        assert (risk(made, past, weights=weights, test=test) > alpha * (1 - 1e-13)).any()
        assert found.risk == pytest.approx(alpha, rel=1e-7)


def assert_supremum_in_contexts(found, risk, lo, hi, alpha):
    """The same for a risk that is given as a function, up to the resolution of the search."""
    grid = np.linspace(lo, hi, 4001)
    risks = risk(grid)
    below = risks[grid <= found.log_beta]
    assert (below <= alpha * (1 + 2e-3)).all()
    if not found.exists:
        assert risks[0] > alpha * (1 - 1e-9)
    elif np.isfinite(found.log_beta):
        assert risk(np.array([found.log_beta + 1e-7]))[0] > alpha * (1 - 1e-9)
        assert found.risk == pytest.approx(alpha, rel=1e-6)
    else:
        assert risks[-1] <= alpha * (1 + 1e-9)
