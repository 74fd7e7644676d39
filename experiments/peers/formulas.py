"""The peers as the literature writes them: a table of losses on a grid, or weights on a log.

Nothing here calls tether.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom


def losses_on(scores: np.ndarray, labels: np.ndarray, grid: np.ndarray, loss: str) -> np.ndarray:
    """Losses, items × thresholds: the share of kept labels that are false, or of true ones lost."""
    kept = scores[:, :, None] >= grid
    true = (kept & labels[:, :, None]).sum(axis=1)
    if loss == "miss":
        return 1 - true / labels.sum(axis=1)[:, None]
    count = kept.sum(axis=1)
    return (count - true) / np.maximum(count, 1)


def crc(losses: np.ndarray, grid: np.ndarray, alpha: float, safest: str = "high") -> float:
    """Conformal risk control: the boldest threshold with (n·mean + 1)/(n + 1) at most alpha."""
    n = len(losses)
    passing = np.flatnonzero((losses.sum(axis=0) + 1) / (n + 1) <= alpha)
    nothing = np.inf if safest == "high" else -np.inf
    if not len(passing):
        return nothing
    return float(grid[passing[0] if safest == "high" else passing[-1]])


def hoeffding_bentkus(mean: np.ndarray, n: int, alpha: float) -> np.ndarray:
    """The p-value of "risk above alpha" from the mean of n losses in [0, 1]."""
    low = np.minimum(mean, alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(low > 0, low * np.log(low / alpha), 0.0)
        entropy = part + (1 - low) * np.log((1 - low) / (1 - alpha))
    return np.minimum(np.exp(-n * entropy), np.e * binom.cdf(np.ceil(n * mean), n, alpha))


def ltt(losses: np.ndarray, grid: np.ndarray, alpha: float, delta: float, procedure: str) -> float:
    """Learn then Test: `bonferroni`, or `fixed_sequence` from the highest threshold down."""
    values = hoeffding_bentkus(losses.mean(axis=0), len(losses), alpha)
    if procedure == "bonferroni":
        good = values <= delta / len(grid)
    else:
        good = np.logical_and.accumulate((values <= delta)[::-1])[::-1]
    return float(grid[np.flatnonzero(good)[0]]) if good.any() else np.inf


def looks_safe(
    losses: np.ndarray,
    log_ratio: np.ndarray,
    log_ratio_proposed: np.ndarray,
    alpha: float,
    *,
    normalized: bool = False,
) -> float:
    """The log of the largest beta whose importance-weighted mean loss is at most alpha.

    The log holds the safe policy's actions, the proposals the optimized one's, for the normalizer.
    """
    log_betas, weights = _weights(log_ratio, log_ratio_proposed)
    total = weights.sum(axis=1) if normalized else len(losses)
    passing = np.flatnonzero(weights @ losses / total <= alpha)
    return float(log_betas[passing[-1]]) if len(passing) else -np.inf


def high_confidence(
    losses: np.ndarray,
    log_ratio: np.ndarray,
    log_ratio_proposed: np.ndarray,
    alpha: float,
    delta: float,
) -> float:
    """The same with an empirical Bernstein bound, from beta = 0 up to the first failure."""
    log_betas, weights = _weights(log_ratio, log_ratio_proposed)
    n, terms = len(losses), weights * losses
    tail = np.log(2 / delta)
    spread = np.sqrt(2 * terms.var(axis=1, ddof=1) * tail / n)
    most = weights.max(axis=1)
    bound = terms.mean(axis=1) + spread + 7 * most * tail / (3 * (n - 1))
    good = np.logical_and.accumulate(bound <= alpha)
    return float(log_betas[np.flatnonzero(good)[-1]]) if good.any() else -np.inf


def _weights(log_ratio: np.ndarray, proposed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A grid of log betas, and the clip policy's weight of each row at each of them."""
    log_betas = np.linspace(-4, 6, 201)
    kernel = np.exp(np.minimum(log_ratio, log_betas[:, None]))
    psi = np.exp(np.minimum(0, log_betas[:, None] - proposed)).mean(axis=1)
    return log_betas, kernel / psi[:, None]
