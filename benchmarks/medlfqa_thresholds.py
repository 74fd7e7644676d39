"""Medical answers with labelled claims: false claims kept and true claims kept, method by method.

25 random splits, 70 % of the questions to calibrate and 30 % to test. The false share is the mean
over test questions of the share of kept claims that are false; recall is the mean share of true
claims that are kept, over questions that have any.

    python -m benchmarks.medlfqa_thresholds medlfqa_arrays.npz

The file holds `offsets` and `is_supported` beside one array a score.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from experiments.medical_qa.claims import false_share_and_recall

import tether

ALPHAS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1)
SPLITS = 25
SPREADS = {"selfeval": 1e-8, "logprob": None, "frequency": 1e-8}  # few distinct scores, or many
METHODS = {
    "gCRC": lambda swept, alpha: tether.gcrc(swept, alpha=alpha),
    "soft chain": lambda swept, alpha: tether.gcrc(swept, promise=alpha),
    "monotonized CRC": lambda swept, alpha: tether.monotonized_crc(swept, alpha=alpha),
    "LTT": lambda swept, alpha: tether.ltt(swept, alpha=alpha),
}


def splits(
    data: Any, score: str, spread: float | None, methods: Any = METHODS, seed: int = 20
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means and standard errors (alphas × measures) over the splits, for each method."""
    rng = np.random.default_rng(seed)
    found = np.empty((len(methods), SPLITS, len(ALPHAS), 2))
    for split in range(SPLITS):
        scores = data[score]
        if spread is not None:
            scores = scores + rng.uniform(0, spread, len(scores))
        claims = tether.Claims(scores, data["is_supported"], data["offsets"])
        order = rng.permutation(claims.n_items)
        cut = round(0.7 * claims.n_items)
        swept = tether.thresholds.sweep(claims.take(order[:cut]))
        test = claims.take(order[cut:])
        for i, method in enumerate(methods.values()):
            for j, alpha in enumerate(ALPHAS):
                chosen = method(swept, alpha).threshold
                found[i, split, j] = false_share_and_recall(test, chosen)
    return {
        name: (found[i].mean(axis=0), found[i].std(axis=0, ddof=1) / SPLITS**0.5)
        for i, name in enumerate(methods)
    }


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.medlfqa_thresholds medlfqa_arrays.npz")
    data = np.load(sys.argv[1])
    for score in SPREADS:
        _, counts = np.unique(data[score], return_counts=True)
        tie = counts.max() / counts.sum()
        print(
            f"{score}: {len(counts):,} distinct values, the commonest held by {tie:.1%} of claims"
        )
    print(f"{SPLITS} splits; false share / recall, in percent, by alpha")
    print(f"{'score':10s} {'ties':7s} {'method':16s}", *(f"{alpha:>12.2f}" for alpha in ALPHAS))
    for score, width in SPREADS.items():
        for spread in (None,) if width is None else (None, width):
            ties = "whole" if spread is None else "spread"
            for name, (means, _) in splits(data, score, spread).items():
                cells = (f"{100 * share:5.2f} / {100 * recall:4.1f}" for share, recall in means)
                print(f"{score:10s} {ties:7s} {name:16s}", *cells, flush=True)


if __name__ == "__main__":
    main()
