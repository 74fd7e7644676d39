"""Tethered policies and shortlists keep beta, calibration, normalizer and every bit of a score."""

import numpy as np
import pytest

import tether
from tests.saving import parts
from tests.saving.round_trip import round_trip
from tether.policies import Normalizer
from tether.rounds.policy_registry import fingerprint
from tether.saving import CannotSaveError, policy_digest, policy_from_bytes, policy_to_bytes


def calibrated(alpha=0.1, optimized=None, **options):
    rng = np.random.default_rng(0)
    safe, optimized = tether.Gaussian(0.0), optimized or tether.Gaussian(1.0)
    actions = safe.sample(300, rng)
    log = tether.make_log(safe, optimized, None, actions, (actions > 1.5).astype(float))
    return safe, optimized, tether.calibrate(log, alpha=alpha, **options)


def test_a_tethered_policy_keeps_its_calibration():
    safe, optimized, found = calibrated()
    loaded = round_trip(tether.Tethered(safe, optimized, found))
    assert loaded.calibration == found
    assert loaded.calibration.promise == found.promise
    assert loaded.log_beta == found.log_beta
    with pytest.raises(ValueError, match="calibrated on a log without contexts"):
        loaded.sample(np.zeros(3), np.random.default_rng(0))


def test_where_beta_comes_from_is_no_part_of_the_digest_or_the_fingerprint():
    safe, optimized, found = calibrated()
    policy = tether.Tethered(safe, optimized, found)
    loaded = policy_from_bytes(policy_to_bytes(policy))
    again = tether.Tethered(safe, optimized, loaded.calibration)
    assert policy_digest(policy) == policy_digest(loaded) == policy_digest(again)
    assert fingerprint(policy) == fingerprint(loaded) == fingerprint(again) is not None


@pytest.mark.parametrize("beta", [0.0, 0.3, 7.0, float("inf")])
@pytest.mark.parametrize("family", ["clip", "mix", tether.BudgetedClip(4)])
def test_every_family_at_every_beta(beta, family):
    round_trip(tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(0.7), beta, family=family))


def test_options_are_kept():
    options = dict(
        sampler="safe", max_draws=5_000, normalizer_draws=99, seed=2**90, outside="never"
    )
    policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(0.7), np.inf, **options)
    loaded = round_trip(policy)
    for name in ("sampler", "max_draws", "normalizer_draws", "seed", "_betas"):
        assert getattr(loaded, name) == getattr(policy, name)


def test_a_beta_past_the_largest_number():
    policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(0.7), 10**400)
    assert round_trip(policy).log_beta == policy.log_beta > 900


def test_a_blend_is_kept_as_it_was():
    optimized = tether.Mixture([tether.Pool([0.0, -np.inf, 1.0])], [1.0])
    log = tether.Log(
        [0.0] * 60, np.log([1 / 3] * 60), np.tile([np.log(0.5), -np.inf, np.log(0.5)], 20)
    )
    found = tether.calibrate(log, alpha=0.3)
    assert found.blend > 0
    loaded = round_trip(tether.Tethered(tether.Pool.uniform(3), optimized, found))
    assert loaded.blend == found.blend


def test_a_remembered_normalizer_goes_along():
    policy = tether.Tethered(tether.Gaussian(0.0), tether.Gaussian(0.7), 0.5)
    before = policy_digest(policy)
    policy.remember(Normalizer(np.array([-0.8]), np.array([0.25])))
    loaded = round_trip(policy)
    assert loaded.normalizer(1).standard_error[0] == 0.25
    assert policy_digest(policy) == before


def test_a_safe_policy_that_occurs_in_every_round_is_saved_once():
    policy = tether.Gaussian(0.0)
    for _ in range(30):  # doubles 30 times if it were saved at each place
        policy = tether.Tethered(policy, tether.Mixture.blend(tether.Gaussian(1.0), policy), 0.5)
    data = policy_to_bytes(policy)
    assert len(data) < 50_000
    assert policy_to_bytes(policy_from_bytes(data)) == data


def test_equal_parts_are_saved_once():
    one, two = tether.Gaussian(0.5), tether.Gaussian(0.5)
    shared = policy_to_bytes(tether.Mixture([one, one], [1, 2]))
    assert shared == policy_to_bytes(tether.Mixture([one, two], [1, 2]))


def test_policies_nested_too_deeply_are_refused():
    policy = tether.Pool.uniform(2)
    for _ in range(2_000):
        policy = tether.Mixture([policy], [1.0])
    with pytest.raises(CannotSaveError, match="nested too deeply"):
        policy_to_bytes(policy)


@pytest.mark.parametrize(
    "optimized", [tether.Gaussian(2.0), parts.score, tether.Mixture([tether.Gaussian(1.0)], [1])]
)
@pytest.mark.parametrize("safe", [tether.Gaussian(0.0), parts.draw])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_shortlists(safe, optimized, temperature):
    shortlist = tether.Shortlist(safe, optimized, size=5, temperature=temperature)
    round_trip(shortlist.tethered(2.5, family="mix"))
    loaded = policy_from_bytes(policy_to_bytes(shortlist), allow_imports=["tests.saving.parts"])
    rows = shortlist.draw(4, np.random.default_rng(0))
    assert np.array_equal(loaded.draw(4, np.random.default_rng(0)).candidates, rows.candidates)
    assert np.array_equal(loaded.picker.scores(rows), shortlist.picker.scores(rows))


def test_a_picker_and_a_shortlist_without_one():
    shortlist = tether.Shortlist(tether.Gaussian(0.0), tether.Gaussian(1.0), size=3)
    rows = shortlist.draw(9, np.random.default_rng(0))
    loaded = policy_from_bytes(policy_to_bytes(shortlist.picker))
    assert np.array_equal(loaded.log_prob_all(rows), shortlist.picker.log_prob_all(rows))
    empty = policy_from_bytes(policy_to_bytes(tether.Shortlist(tether.Gaussian(0.0), size=3)))
    assert empty.picker is None


def test_a_family_of_the_user_needs_a_way_to_be_saved():
    class Geometric(tether.Family):
        name = "geometric"

        def log_kernel(self, log_safe, log_optimized, log_beta):
            return log_safe

    policy = tether.Tethered(
        tether.Pool([0.0, 1.0]), tether.Pool([1.0, 0.0]), 1.0, family=Geometric()
    )
    with pytest.raises(CannotSaveError, match=r"policy\.family is a .*Geometric.*tether_save"):
        policy_to_bytes(policy)
