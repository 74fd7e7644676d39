"""Thresholds for labelled claims beside MAPIE's and riskgate's: risk and kept share in one table.

Items have eight scored claims each; the loss of an item is the share of false ones among those that
are kept. All methods choose from the same samples; the true risk and the kept share are then known
from very many items. An item of which nothing is kept costs nothing, and for MAPIE everything: it
counts a precision of none as 0. MAPIE and riskgate are left out where they are not installed
(pip install mapie; pip install --pre riskgate).

    python -m benchmarks.peers [repeats]
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from itertools import product

import numpy as np

import tether
from tether.thresholds import ltt, monotonized_crc

CLAIMS, ALPHA, DELTA = 8, 0.15, 0.1
GRID = np.linspace(0, 1, 201)
ON_AVERAGE, WITH_PROBABILITY = "mean risk ≤ 0.15", "above in ≤ 10 %"


def draw(rng: np.random.Generator, items: int) -> tether.Claims:
    """Items of which some are harder; each has a true claim, as MAPIE demands."""
    scores = rng.random((items, CLAIMS)).round(3)
    skill = rng.uniform(0.85, 1.0, (items, 1))
    true = rng.random(scores.shape) < skill * (0.8 + 0.2 * scores)
    true[~true.any(axis=1), 0] = True
    return tether.Claims(scores.ravel(), true.ravel(), np.arange(0, scores.size + 1, CLAIMS))


def known_truth(items: int = 200_000) -> Callable[[float], tuple[float, float]]:
    """The true risk of a threshold and the share of claims that it keeps, from very many items."""
    claims = draw(np.random.default_rng(0), items)
    swept, scores = tether.thresholds.sweep(claims), np.sort(claims.scores)

    def truth(threshold: float) -> tuple[float, float]:
        place = np.searchsorted(-swept.thresholds, -threshold, side="right") - 1
        kept = 1 - np.searchsorted(scores, threshold) / len(scores)
        return float(swept.sums[place] / swept.n_items), float(kept)

    return truth


def _tables(claims: tether.Claims) -> tuple[np.ndarray, np.ndarray]:
    return claims.scores.reshape(-1, CLAIMS), claims.supported.reshape(-1, CLAIMS)


def mapie_ltt(claims: tether.Claims) -> float:
    """MAPIE's control of precision: Learn then Test over a grid."""
    from mapie.risk_control import MultiLabelClassificationController

    scores, true = _tables(claims)
    controller = MultiLabelClassificationController(
        lambda rows: scores[rows[:, 0]],
        risk="precision",
        predict_params=GRID[:-1],
        target_level=1 - ALPHA,
        confidence_level=1 - DELTA,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where no threshold is valid
        controller.calibrate(np.arange(len(scores))[:, None], true.astype(int))
    found = np.ravel(np.asarray(controller.best_predict_param, dtype=float))
    return float(found[0]) if len(found) and np.isfinite(found[0]) else np.inf


def riskgate_any(claims: tether.Claims) -> float:
    """riskgate's agnostic mode: conformal risk control of "any false claim is kept"."""
    from riskgate.conformal import agnostic_losses, crc_threshold, lambda_grid

    scores, true = _tables(claims)
    grid = lambda_grid(list(scores))
    return float(crc_threshold(agnostic_losses(list(scores), list(~true), grid), grid, ALPHA))


def riskgate_envelope(claims: tether.Claims) -> float:
    """riskgate's conformal risk control of the share of false claims, made monotone as it asks."""
    from riskgate.conformal import crc_threshold

    scores, true = _tables(claims)
    kept = scores[:, :, None] >= GRID
    shares = (kept & ~true[:, :, None]).sum(axis=1) / np.maximum(kept.sum(axis=1), 1)
    losses = np.maximum.accumulate(shares[:, ::-1], axis=1)[:, ::-1]
    return float(crc_threshold(losses, GRID, ALPHA))


def _served(found: tether.Selection) -> float:
    return found.threshold if found.exists else np.inf


METHODS: dict[str, tuple[str, Callable[[tether.Claims], float]]] = {
    "MAPIE, LTT": (WITH_PROBABILITY, mapie_ltt),
    "tether.ltt": (WITH_PROBABILITY, lambda c: _served(ltt(c, alpha=ALPHA))),
    "riskgate, any false": (ON_AVERAGE, riskgate_any),
    "riskgate, envelope": (ON_AVERAGE, riskgate_envelope),
    "tether.monotonized_crc": (ON_AVERAGE, lambda c: _served(monotonized_crc(c, alpha=ALPHA))),
    "tether.gcrc, alpha": (ON_AVERAGE, lambda c: _served(tether.gcrc(c, alpha=ALPHA))),
    "tether.gcrc, promise": (ON_AVERAGE, lambda c: _served(tether.gcrc(c, promise=ALPHA))),
}


def main() -> None:
    repeats, truth = int(sys.argv[1]) if len(sys.argv) > 1 else 200, known_truth()
    print(f"{'items':>5}  {'method':24s} {'promise':18s} {'risk':>15s} {'above':>6s} {'kept':>6s}")
    for items, (method, (promise, choose)) in product((100, 300, 1000), METHODS.items()):
        peer = method.split(",")[0].lower()
        if not peer.startswith("tether") and find_spec(peer) is None:
            continue
        times = min(repeats, 20) if peer == "mapie" else repeats  # it takes seconds
        samples = (draw(np.random.default_rng([items, r]), items) for r in range(times))
        found = np.array([truth(choose(each)) for each in samples])
        risk, kept = found.mean(axis=0)
        error, above = found[:, 0].std(ddof=1) / times**0.5, (found[:, 0] > ALPHA).mean()
        told = f"{items:5d}  {method:24s} {promise:18s} {risk:.4f} ± {error:.4f}"
        print(f"{told} {above:6.1%} {kept:6.1%}", flush=True)


if __name__ == "__main__":
    main()
