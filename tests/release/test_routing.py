import numpy as np

import tether


def test_a_router_is_calibrated_as_a_policy_with_two_actions():
    """The rows of a step at a known share are a safe log of the router."""
    rng, share = np.random.default_rng(0), 0.2
    safe = tether.Categorical.from_probabilities([[1 - share, share]] * 2)
    router = tether.Categorical.from_probabilities([[0.02, 0.98], [0.98, 0.02]])
    everywhere = tether.Categorical.from_probabilities([[0.02, 0.98]] * 2)
    segment = (rng.random(3_000) < 0.1).astype(int)
    system = safe.sample(segment, rng)
    risk = np.where(system == 1, np.where(segment == 1, 0.5, 0.005), 0.01)
    losses = rng.random(len(risk)) < risk
    betas = {}
    for name, policy in {"router": router, "everywhere": everywhere}.items():
        log = tether.make_log(safe, policy, segment, system, losses)
        betas[name] = tether.calibrate(log, alpha=0.03).beta
    assert betas["router"] > 4 > 2 > betas["everywhere"]  # 0.98/0.2 lets everything through
