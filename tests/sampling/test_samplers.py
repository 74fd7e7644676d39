"""The samplers by name: which envelope each draws under, and when a mixture is better."""

import numpy as np
import pytest

import tether
from tether.sampling import Envelope, PolicyPair
from tether.sampling.samplers import SAMPLERS, find_envelope


def split(share):
    """Uniform on [0, 1) with probability share and on [1, 2) with the rest: ratios with a gap."""
    density = np.log([share, 1 - share])
    return tether.FunctionPolicy(
        lambda n, rng: np.where(rng.random(n) < share, 0.0, 1.0) + rng.random(n),
        lambda n, actions: density[np.clip(actions, 0, 1.999).astype(int)],
    )


@pytest.mark.parametrize("contexts", [500, np.zeros(500)])
@pytest.mark.parametrize("log_beta", [-1.0, 1.0])
def test_every_sampler_has_an_envelope_at_its_beta(contexts, log_beta):
    pair = PolicyPair(tether.Gaussian(0.0), tether.Gaussian(1.0))
    envelopes = {
        sampler: find_envelope(sampler, pair, contexts, log_beta, np.random.default_rng(0))
        for sampler in SAMPLERS
    }
    assert all(envelope.log_beta == log_beta for envelope in envelopes.values())
    assert envelopes["auto"] == envelopes["metropolis"] == Envelope.auto(log_beta)
    assert envelopes["safe"].safe_weight == 1
    assert envelopes["optimized"].safe_weight == 0
    assert envelopes["adaptive"].adaptive
    # With contexts, no envelope constant is learned from draws.
    always_valid = [sampler for sampler in SAMPLERS if envelopes[sampler].always_valid]
    assert isinstance(contexts, int) or always_valid == list(SAMPLERS)


def test_a_mixture_accepts_more_where_no_action_has_a_ratio_near_beta():
    safe, optimized = split(0.8), split(0.4)  # ratios 1/2 and 3
    options = {"rng": np.random.default_rng(0), "contexts": 40_000}
    seen = {
        name: tether.Tethered(safe, optimized, 1.0, sampler=name).sample_with_info(**options)[1]
        for name in ("safe", "optimized", "grid")
    }
    # With edges 1/2 and 3 around beta 1, w = 2/3 has the lowest envelope, 0.6 instead of 1.
    assert seen["grid"].safe_weight == pytest.approx(2 / 3, abs=0.01)
    assert seen["safe"].acceptance == pytest.approx(0.6, abs=0.01)
    assert seen["optimized"].acceptance == pytest.approx(0.6, abs=0.01)
    assert seen["grid"].acceptance == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("sampler", ["grid", "overlap"])
def test_pilot_draws_without_overlap_are_not_an_error_in_contexts(sampler):
    """Both policies can take one action in fifty, and one draw of each seldom is such a one."""

    def box(low):
        return tether.FunctionPolicy(
            lambda x, rng: low + rng.random(len(x)),
            lambda x, a: np.where((a >= low) & (a < low + 1), 0.0, -np.inf),
        )

    policy = tether.Tethered(box(0.0), box(0.98), 1.0, sampler=sampler, outside="never")
    rng = np.random.default_rng(0)
    drawn = np.concatenate([policy.sample(np.zeros(1), rng) for _ in range(20)])
    assert ((drawn >= 0.98) & (drawn < 1)).all()
