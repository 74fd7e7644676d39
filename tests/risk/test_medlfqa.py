"""Medical answers with labelled claims: 25 splits, 70 % to calibrate and 30 % to test.

The recalls to meet are those of a grid of 200 thresholds on scores whose ties were broken at
random. Two of the three scores have so few values that one tie holds a large share of all claims;
an exact sweep, which never splits a tie, then keeps less. With ties spread as there, it meets them.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import tether

DATA = Path(os.environ.get("TETHER_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = DATA / "medlfqa" / "medlfqa_arrays.npz"
ALPHAS = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]
RECALLS = {
    "selfeval": {0.03: 0.328, 0.04: 0.674, 0.05: 0.896},
    "logprob": {0.01: 0.319, 0.02: 0.792},
    "frequency": {0.04: 0.923},
}

pytestmark = pytest.mark.skipif(not FILE.exists(), reason=f"no MedLFQA claims at {FILE}")


def false_share_and_recall(claims, threshold):
    """Mean over items of the share of kept claims that are false, and of true claims kept."""
    kept, start = claims.scores >= threshold, claims.offsets[:-1]
    count = np.add.reduceat(kept.astype(float), start)
    true = np.add.reduceat((kept & claims.supported).astype(float), start)
    every = np.add.reduceat(claims.supported.astype(float), start)
    some = every > 0
    return ((count - true) / np.maximum(count, 1)).mean(), (true[some] / every[some]).mean()


def splits(score, spread):
    """Mean share of false claims and recall at each alpha, with standard errors."""
    data = np.load(FILE)
    rng = np.random.default_rng(20)
    found = np.empty((25, len(ALPHAS), 2))
    for split in range(25):
        scores = data[score]
        if spread:
            scores = tether.spread_ties(scores, rng, width=spread)
        claims = tether.Claims(scores, data["is_supported"], data["offsets"])
        order = rng.permutation(claims.items)
        cut = round(0.7 * claims.items)
        swept = tether.sweep(claims.take(order[:cut]), envelope=False)
        test = claims.take(order[cut:])
        for j, alpha in enumerate(ALPHAS):
            chosen = tether.gcrc(swept, alpha=alpha, stability=False)
            found[split, j] = false_share_and_recall(test, chosen.threshold)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / 5


@pytest.mark.parametrize(
    ("score", "spread"),
    [("selfeval", 1e-8), ("logprob", None), ("frequency", 1e-8)],
)
def test_false_claims_stay_within_alpha_and_true_ones_are_kept(score, spread):
    means, errors = splits(score, spread)
    assert (means[:, 0] <= np.array(ALPHAS) + 3 * errors[:, 0]).all()
    for alpha, recall in RECALLS[score].items():
        j = ALPHAS.index(alpha)
        assert means[j, 1] >= recall - 3 * errors[j, 1]


@pytest.mark.parametrize("score", ["selfeval", "frequency"])
def test_whole_ties_are_safer_still(score):
    means, errors = splits(score, None)
    assert (means[:, 0] <= np.array(ALPHAS) + 3 * errors[:, 0]).all()
    spread, _ = splits(score, 1e-8)
    assert (means[:, 1] <= spread[:, 1] + 3 * errors[:, 1] + 1e-3).all()
