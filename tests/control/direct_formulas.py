"""The definitions, computed directly: slow, in extended precision, sharing no code with tether.

Everything here follows the formulas as they are written, one beta at a time or on a grid, so that
the fast code has something to be compared with.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

LONG = np.longdouble


def clip_kernel(safe, optimized, log_beta):
    """Log of min(optimized, β·safe)."""
    return np.minimum(optimized, safe + log_beta)


def mix_kernel(safe, optimized, log_beta):
    """Log of (safe + β·optimized)/(1 + β)."""
    return np.logaddexp(safe, log_beta + optimized) - np.logaddexp(0, log_beta)


def geometric_kernel(safe, optimized, log_beta):
    """Log of safe^(1−s)·optimized^s with s = β/(1 + β)."""
    share = 1 / (1 + np.exp(-log_beta))
    return (1 - share) * safe + share * optimized


def weights(kernel, safe, optimized, mix, log_beta):
    """kernel/mix for each row (axis 0) and beta (axis 1), without a normalizer."""
    safe, optimized, mix = (
        np.asarray(part, dtype=LONG)[:, None] for part in (safe, optimized, mix)
    )
    return np.exp(kernel(safe, optimized, np.asarray(log_beta, dtype=LONG)) - mix)


def risk(made, log_beta, bound=1.0, kernel=clip_kernel, test=None, off=None):
    """The calibrated risk on a grid of log beta, without contexts: the normalizer cancels.

    `test`, a function of the rows' weights and the grid, replaces the largest weight of a draw.
    `off` are alpha and the factor by which weights may be wrong.
    """
    grid = np.atleast_1d(log_beta)
    rows = weights(kernel, made["safe"], made["optimized"], made["mix"], grid)
    if test is None:
        drawn = [made[name] for name in ("draw_safe", "draw_optimized", "draw_mix")]
        last = weights(kernel, *drawn, grid).max(axis=0)
    else:
        last = test(rows, grid)
    return contextual_risk(np.asarray(made["loss"], dtype=LONG), rows, 1, last, bound, off)


def contextual_risk(loss, row_weights, normalizers, test, bound=1.0, off=None):
    """The calibrated risk with one normalizer per row: weights and normalizers on a grid."""
    rows = row_weights / normalizers
    if off is not None:  # the worst that weights within a factor of these can do
        alpha, factor = off
        rows = rows * np.where(loss > alpha, factor, 1 / factor)[:, None]
        test = test * factor
    return ((loss[:, None] * rows).sum(axis=0) + bound * test) / (rows.sum(axis=0) + test)


def budgeted_ratio(log_ratio, from_safe, from_optimized, grid):
    """Tethered over safe density of budgeted clip, with fresh proposals averaged over all orders.

    `log_ratio` are points in one context (axis 0), the other two the proposals' log ratios.
    """
    beta = np.exp(np.asarray(grid, dtype=LONG))
    below = np.asarray(grid) < 0
    ratios = (np.exp(np.asarray(part, dtype=LONG))[:, None] for part in (from_safe, from_optimized))
    safe, optimized = ratios
    reject = 1 - np.minimum(1, np.where(below, safe / beta, beta / optimized))
    tries = []
    for order in itertools.permutations(range(len(reject))):
        survived = np.cumprod(reject[list(order)], axis=0)
        tries.append(1 + survived[:-1].sum(axis=0))
    kernel = np.minimum(np.exp(np.asarray(log_ratio, dtype=LONG))[:, None], beta)
    kernel = kernel / np.minimum(beta, 1)
    return kernel * np.mean(tries, axis=0) + reject.prod(axis=0)


def largest_passing(risks, grid, alpha, tolerance=1e-12):
    """The last grid point before the first failure; −inf if the first fails, +inf if none does."""
    failing = np.flatnonzero(risks > alpha * (1 + tolerance))
    if len(failing) == 0:
        return np.inf
    return grid[failing[0] - 1] if failing[0] else -np.inf


KERNELS = {"clip": clip_kernel, "mix": mix_kernel, "geometric": geometric_kernel}


def assert_supremum(made, found, alpha, family, points=1000, test=None):
    """Risk is at most alpha everywhere below beta and above alpha just past it."""
    ratios = np.concatenate(
        (made["optimized"] - made["safe"], made["draw_optimized"] - made["draw_safe"])
    )
    lo, hi = ratios.min() - 3, ratios.max() + 3
    if family != "clip":
        lo, hi = -hi - 40, 40 - lo
    kernel = KERNELS[family]
    reached = min(found.log_beta, hi)
    if found.exists:
        below = np.linspace(min(lo, reached - 1), reached, points)
        assert (risk(made, below, kernel=kernel, test=test) <= alpha * (1 + 1e-9)).all()
    else:
        assert risk(made, lo, kernel=kernel, test=test)[0] > alpha * (1 - 1e-9)
    if np.isfinite(found.log_beta):
        past = found.log_beta + np.linspace(1e-9, 1e-5, 30)
        assert (risk(made, past, kernel=kernel, test=test) > alpha * (1 - 1e-13)).any()
        at_beta = float(risk(made, found.log_beta, kernel=kernel, test=test)[0])
        assert at_beta == pytest.approx(alpha, rel=1e-7)
        assert found.risk == pytest.approx(at_beta, rel=1e-7)


def assert_supremum_in_contexts(found, risk, lo, hi, alpha):
    """The same for a risk that is given as a function, up to the resolution of the search."""
    grid = np.linspace(lo, hi, 1001)
    risks = risk(grid)
    below = risks[grid <= found.log_beta]
    assert (below <= alpha * (1 + 2e-3)).all()
    if not found.exists:
        assert risks[0] > alpha * (1 - 1e-9)
    elif np.isfinite(found.log_beta):
        assert risk(np.array([found.log_beta + 1e-7]))[0] > alpha * (1 - 1e-9)
        at_beta = float(risk(np.array([found.log_beta]))[0])
        if found.log_beta == np.nextafter(0.0, -1.0):  # the risk jumps where β = 1
            assert at_beta <= alpha * (1 + 1e-6)
        else:
            assert at_beta == pytest.approx(alpha, rel=1e-6)
        assert found.risk == pytest.approx(at_beta, rel=1e-6)
    else:
        assert risks[-1] <= alpha * (1 + 1e-9)
