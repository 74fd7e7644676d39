"""The envelope of a family that states its own acceptance probability."""

import numpy as np
import pytest

import tether
from tether.sampling.family_envelope import FamilyEnvelope


class TwoSided(tether.Family):
    """Mix written as an accept-reject family: every proposal is accepted with `log_accepted`."""

    name, normalized = "two-sided", True

    def __init__(self, log_accepted):
        self.log_accepted = log_accepted

    def log_kernel(self, log_safe, log_optimized, log_beta):
        return tether.Mix().log_kernel(log_safe, log_optimized, log_beta)

    def optimized_share(self, log_beta):
        return 0.5

    def log_accept(self, log_ratio, log_beta):
        return np.full_like(log_ratio, self.log_accepted)


def test_it_accepts_as_the_family_says_at_every_weight():
    envelope = FamilyEnvelope(0.3, 0.5, family=TwoSided(-0.7))
    assert envelope.log_accept_probability(np.array([-1.0, 2.0])).tolist() == [-0.7, -0.7]
    assert envelope.always_valid
    assert envelope.adapted([10, 10], [1, 9]) is envelope


@pytest.mark.parametrize("log_accepted", [1e-6, np.inf, np.nan])
def test_a_probability_above_one_is_refused(log_accepted):
    envelope = FamilyEnvelope(0.0, 0.5, family=TwoSided(log_accepted))
    with pytest.raises(ValueError, match=r"family 'two-sided' accepts .* must be at most 0"):
        envelope.log_accept_probability(np.zeros(3))


def test_rounding_past_one_is_allowed():
    envelope = FamilyEnvelope(0.0, 0.5, family=TwoSided(1e-12))
    assert (envelope.log_accept_probability(np.zeros(3)) > 0).all()
