import numpy as np
import pytest

import tether
from tether.risk import score_order


def kinds(rng, size):
    yield rng.random(size)
    yield rng.normal(size=size)
    yield rng.integers(-3, 3, size).astype(float)
    yield np.full(size, 0.5)
    yield np.where(rng.random(size) < 0.5, 0.0, -0.0)
    yield rng.choice([-0.0, 0.0, 0.25, 1.0], size)
    yield rng.choice([-1.0, -0.0, 0.0, 1.0], size)
    yield 1 + rng.random(size) * 1e-13
    yield 1 + rng.integers(0, 40, size) * 2.0**-52
    close = rng.choice([-1, 1, 3], size) * (1 + rng.integers(0, 40, size) * 2.0**-52)
    close[:2] = -1e300, 1e300  # so wide that close scores share all leading bits
    yield close
    yield rng.normal(size=size) * 10.0 ** rng.integers(-300, 300, size)
    yield np.array([*rng.random(size - 1), 1e300])


@pytest.mark.parametrize("block", [8, 64])
def test_the_order_is_exact_whatever_the_scores(monkeypatch, block):
    monkeypatch.setattr(score_order, "CLAIMS_PER_BLOCK", block)
    rng = np.random.default_rng(0)
    for size in (block, block + 1, 3 * block, 500):
        for scores in kinds(rng, size):
            positions, run_ends = score_order.ascending(scores)
            assert sorted(positions) == list(range(size))
            found = scores[positions]
            assert (found == np.sort(scores)).all()
            assert (run_ends == np.append(found[1:] != found[:-1], True)).all()


@pytest.mark.parametrize("size", [1000, score_order.CLAIMS_PER_BLOCK])
def test_minus_zero_is_zero_and_not_the_highest_score(size):
    scores = np.resize([-0.0, 0.5, 0.0, 1.0], size)
    positions, run_ends = score_order.ascending(scores)
    assert (scores[positions] == np.sort(scores)).all()
    assert run_ends.sum() == 3
    claims = tether.Claims(scores, scores > 0.25, np.arange(size + 1))
    found = tether.gcrc(claims, alpha=0.01, measure_stability=False)
    assert (found.threshold, found.n_candidates) == (0.5, 4)


def test_a_large_array():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=score_order.CLAIMS_PER_BLOCK + 12345)
    scores[:1000] = scores[1000:2000]
    positions, run_ends = score_order.ascending(scores)
    assert (scores[positions] == np.sort(scores)).all()
    assert run_ends.sum() == len(scores) - 1000
