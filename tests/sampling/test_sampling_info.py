import numpy as np

import tether
from tether.sampling import SamplingInfo


def test_records_are_saved_and_loaded(tmp_path):
    for sampler in ("auto", "adaptive", "metropolis"):
        policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), 0.5, sampler=sampler)
        _, info = policy.sample_with_info(200, np.random.default_rng(0))
        info.save(tmp_path / "info.json", overwrite=True)
        assert SamplingInfo.load(tmp_path / "info.json") == info


def test_the_same_seed_gives_the_same_actions():
    policy = tether.Tethered(tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8), 0.5)
    actions, _ = policy.sample_with_info(500, np.random.default_rng(9))
    assert np.array_equal(actions, policy.sample(500, np.random.default_rng(9)))


def test_the_record_prints_and_states_acceptance_by_policy():
    policy = tether.Tethered(tether.Gaussian(0.0, 1.0), tether.Gaussian(1.0, 0.8), 0.5)
    _, info = policy.sample_with_info(500, np.random.default_rng(9))
    assert "500 actions by accept-reject (auto)" in str(info)
    assert info.to_dict()["acceptance"] == info.acceptance
    assert np.isnan(info.acceptance_optimized)
    assert info.acceptance_safe == info.acceptance
    assert info.share_safe == 1
    budgeted = tether.Tethered(
        tether.Gaussian(0.0), tether.Gaussian(3.0), 1.0, family="budgeted_clip(1)"
    )
    _, info = budgeted.sample_with_info(500, np.random.default_rng(9))
    assert "fell back to safe" in str(info)
    assert np.isnan(info.acceptance_safe)
