"""Medical answers with labelled claims: 25 splits, 70 % to calibrate and 30 % to test.

The recalls to meet are those of a grid of 200 thresholds on scores whose ties were broken at
random. Two of the three scores have so few values that one tie holds a large share of all claims;
an exact sweep, which never splits a tie, then keeps less. With ties spread as there, it meets them.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from benchmarks import medlfqa_thresholds as medlfqa

RECALLS = {
    "selfeval": {0.03: 0.328, 0.04: 0.674, 0.05: 0.896},
    "logprob": {0.01: 0.319, 0.02: 0.792},
    "frequency": {0.04: 0.923},
}
ALPHAS = np.array(medlfqa.ALPHAS)
DATA = Path(os.environ.get("TETHER_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = DATA / "medlfqa" / "medlfqa_arrays.npz"

pytestmark = pytest.mark.skipif(not FILE.exists(), reason=f"no MedLFQA claims at {FILE}")


def splits(score, spread):
    gcrc = {"gCRC": medlfqa.METHODS["gCRC"]}
    return medlfqa.splits(np.load(FILE), score, spread, gcrc)["gCRC"]


@pytest.mark.parametrize(("score", "spread"), medlfqa.SPREADS.items())
def test_false_claims_stay_within_alpha_and_true_ones_are_kept(score, spread):
    means, errors = splits(score, spread)
    assert (means[:, 0] <= ALPHAS + 3 * errors[:, 0]).all()
    for alpha, recall in RECALLS[score].items():
        j = medlfqa.ALPHAS.index(alpha)
        assert means[j, 1] >= recall - 3 * errors[j, 1]


@pytest.mark.parametrize("score", ["selfeval", "frequency"])
def test_whole_ties_are_safer_still(score):
    means, errors = splits(score, None)
    assert (means[:, 0] <= ALPHAS + 3 * errors[:, 0]).all()
    spread, _ = splits(score, 1e-8)
    assert (means[:, 1] <= spread[:, 1] + 3 * errors[:, 1] + 1e-3).all()
