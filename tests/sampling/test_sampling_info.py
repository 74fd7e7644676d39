import numpy as np

import tether
from tether.sampling import SamplingInfo


def test_records_are_saved_and_loaded(tmp_path):
    for sampler in ("auto", "adaptive", "metropolis"):
        policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(1.0), 0.5, sampler=sampler)
        _, info = policy.sample_with_info(200, np.random.default_rng(0))
        info.save(tmp_path / "info.json")
        assert SamplingInfo.load(tmp_path / "info.json") == info
