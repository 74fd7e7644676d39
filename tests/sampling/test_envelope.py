"""The envelope of a mixture proposal: valid at every ratio, and adapted to the past only."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.sampling import Envelope

WEIGHTS = st.floats(0, 1)
LOGS = st.floats(-20, 20)


@settings(deadline=None)
@given(WEIGHTS, LOGS, st.lists(LOGS, min_size=1, max_size=20))
def test_no_draw_exceeds_the_tight_envelope(weight, log_beta, log_ratios):
    envelope = Envelope.tight(log_beta, weight)
    assert envelope.always_valid
    assert (envelope.log_accept_probability(np.array(log_ratios)) <= 1e-9).all()
    assert envelope.log_accept_probability(np.array([log_beta]))[0] == pytest.approx(0, abs=1e-9)


def test_an_envelope_that_is_not_adaptive_stays_the_same():
    envelope = Envelope.tight(0.0, 0.3)
    assert envelope.adapted([10, 10], [10, 0]) is envelope


@pytest.mark.parametrize("weight", [-0.1, 1.1, np.nan])
def test_weights_outside_the_unit_interval_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        Envelope.tight(0.0, weight)


@settings(deadline=None)
@given(WEIGHTS, LOGS)
def test_the_automatic_envelope_has_the_highest_acceptance(weight, log_beta):
    log_psi = np.array([min(log_beta, 0.0)])
    best = Envelope.auto(log_beta).log_acceptance(log_psi)
    assert best[0] >= Envelope.tight(log_beta, weight).log_acceptance(log_psi)[0] - 1e-9


def test_an_adaptive_envelope_keeps_a_minimum_weight_of_each_policy():
    envelope = Envelope.tight(0.0, 0.5, adaptive=True)
    assert envelope.adapted([10_000, 10_000], [10_000, 0]).safe_weight == 0.95
    assert envelope.adapted([10_000, 10_000], [0, 10_000]).safe_weight == 0.05
    assert envelope.adapted([10, 10], [10, 0]).adaptive
