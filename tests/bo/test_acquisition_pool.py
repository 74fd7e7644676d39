import numpy as np
import pytest
import torch
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.sampling import SobolQMCNormalSampler

import tether
from tests.bo.gaussian_process import fitted
from tether.bo import AcquisitionPool


def test_probabilities_are_the_tilted_acquisition():
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    acquisition = qLogExpectedImprovement(fitted(), best_f=0.5, sampler=sampler)
    candidates = np.random.default_rng(2).random((60, 2))
    for temperature in (2.0, 1.0, 0.1):
        pool = AcquisitionPool(acquisition, candidates, temperature)
        direct = np.array([float(acquisition(torch.tensor(c[None])).detach()) for c in candidates])
        chance = np.exp((direct - direct.max()) / temperature)
        assert np.allclose(np.exp(pool.log_prob_all(1)[0]), chance / chance.sum())
    assert np.array_equal(pool.points([3, 3]), candidates[[3, 3]])


def test_draws_have_the_frequencies_of_the_scores():
    pool = AcquisitionPool(lambda points: points[:, 0], [[0.0], [1.0], [2.0], [-np.pi]], 0.7)
    drawn = pool.sample(200_000, np.random.default_rng(3))
    seen = np.bincount(drawn, minlength=4) / len(drawn)
    assert np.allclose(seen, np.exp(pool.log_prob_all(1)[0]), atol=5e-3)


def test_the_deployed_risk_over_many_worlds_is_at_most_alpha():
    """Past rounds enter through the mixture, and the deployed risk over many worlds holds alpha."""
    grid = np.linspace(-3, 3, 121)[:, None]
    safe = AcquisitionPool(lambda points: -(points[:, 0] ** 2) / 2, grid)
    optimized = AcquisitionPool(lambda points: points[:, 0], grid, temperature=0.5)
    costly = (grid[:, 0] > 1.2).astype(float)
    first = tether.Tethered(safe, optimized, 0.3)
    mixture = tether.Mixture([safe, first], [40, 20])
    risks = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        actions = np.concatenate([safe.sample(40, rng), first.sample(20, rng)])
        log = tether.make_log(
            safe, optimized, None, actions, costly[actions], logged_by=mixture, safe_share=2 / 3
        )
        found = tether.calibrate(log, alpha=0.3, test_weight="analytic")
        deployed = tether.Tethered(safe, optimized, found)
        risks.append(np.exp(deployed.log_prob_all(1)[0]) @ costly)
    assert np.exp(optimized.log_prob_all(1)[0]) @ costly > 0.9
    assert 0.2 < np.mean(risks) < 0.3 + 3 * np.std(risks) / np.sqrt(len(risks))


def test_a_uniform_pool_needs_no_acquisition():
    assert type(AcquisitionPool.uniform(4)) is tether.Pool
    assert np.allclose(AcquisitionPool.uniform(4).log_prob_all(1), -np.log(4))


def test_invalid_pools_are_refused():
    with pytest.raises(ValueError, match="candidates must have 2 dimension"):
        AcquisitionPool(lambda points: points[:, 0], [0.0, 1.0])
    with pytest.raises(ValueError, match="rule out every candidate"):
        AcquisitionPool(lambda points: np.full(len(points), -np.inf), [[0.0], [1.0]])
