"""The definitions, computed directly: slow, in extended precision, sharing no code with tether.

Everything here follows the formulas as they are written, one beta at a time or on a grid, so that
the fast code has something to be compared with.
"""

from __future__ import annotations

import numpy as np

LONG = np.longdouble


def problem(rng: np.random.Generator, rows: int, draws: int, *, spread=1.0, mix=False, ties=False):
    """A random marginal problem as a dictionary of columns."""
    made = {
        "loss": rng.choice([0.0, 0.3, 1.0], size=rows, p=[0.7, 0.1, 0.2]),
        "safe": rng.normal(size=rows) - 2,
        "optimized": np.zeros(rows),
        "draw_safe": rng.normal(size=draws) - 2,
        "draw_optimized": np.zeros(draws),
    }
    made["optimized"] = made["safe"] + spread * rng.normal(size=rows)
    made["draw_optimized"] = made["draw_safe"] + spread * rng.normal(size=draws) + 0.3 * spread
    if ties:
        made["optimized"] = made["safe"] + np.round(made["optimized"] - made["safe"])
        made["draw_optimized"] = made["draw_safe"] + np.round(
            made["draw_optimized"] - made["draw_safe"]
        )
    if mix:
        made["mix"] = made["safe"] + rng.normal(size=rows)
        made["draw_mix"] = made["draw_safe"] + rng.normal(size=draws)
    else:
        made["mix"], made["draw_mix"] = made["safe"], made["draw_safe"]
    return made


def gaussian(rng: np.random.Generator, rows: int, draws: int):
    """The columns of N(0, 1) against N(1, 0.8), harmful past 1.5: the safe risk is 0.067."""
    action, drawn = rng.normal(size=rows), 1 + 0.8 * rng.normal(size=draws)
    made = {"loss": (action > 1.5).astype(float)}
    for prefix, values in (("", action), ("draw_", drawn)):
        made[f"{prefix}safe"] = made[f"{prefix}mix"] = -(values**2) / 2
        made[f"{prefix}optimized"] = -(((values - 1) / 0.8) ** 2) / 2 - np.log(0.8)
    return made


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
    """The calibrated risk with one normalizer a row: weights and normalizers on a grid."""
    rows = row_weights / normalizers
    return ((loss[:, None] * rows).sum(axis=0) + bound * test) / (rows.sum(axis=0) + test)


def largest(risks, grid, alpha, tolerance=1e-12):
    """The last grid point before the first failure; −inf if the first fails, +inf if none does."""
    failing = np.flatnonzero(risks > alpha * (1 + tolerance))
    if len(failing) == 0:
        return np.inf
    return grid[failing[0] - 1] if failing[0] else -np.inf
