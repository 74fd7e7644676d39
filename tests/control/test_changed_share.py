"""The share of decisions that change, against total variation distances and by simulation."""

import numpy as np
import pytest

import tether
from tests.control.finite_worlds import FiniteWorld


def gaussian_log(rng, rows):
    """N(0, 1) against N(1, 1): clip at β moves up to 0.383 of the probability."""
    action = rng.normal(size=rows)
    return tether.Log(action > 1.5, -(action**2) / 2, -((action - 1) ** 2) / 2)


def clip_distance(beta):
    """The total variation distance by a sum over a fine grid."""
    points, step = np.linspace(-9, 10, 20_001, retstep=True)
    safe, optimized = (np.exp(-((points - mean) ** 2) / 2) / np.sqrt(2 * np.pi) for mean in (0, 1))
    kernel = np.minimum(optimized, beta * safe)
    return np.maximum(kernel / kernel.sum() / step - safe, 0).sum() * step


def test_intervals_cover_the_distance_at_the_beta_that_was_found():
    """0.96 of 300 logs, although the same rows determine beta and the normalizing constant."""
    rng, covered = np.random.default_rng(0), []
    for _ in range(300):
        calibration = tether.calibrate(gaussian_log(rng, 400), alpha=0.12)
        found = tether.gain(calibration).changed
        if found.known:  # by chance a few logs seem to lack what the optimized policy does
            covered.append(found.lower <= clip_distance(calibration.beta) <= found.upper)
    assert len(covered) > 290
    assert 0.92 < np.mean(covered) < 0.995


def test_the_estimated_normalizing_constant_is_part_of_the_spread():
    """Intervals without it, from the spread of (1 − w)₊ alone, are too wide or too narrow."""
    rng, estimates, widths = np.random.default_rng(1), [], []
    for _ in range(300):
        calibration = tether.calibrate(gaussian_log(rng, 2000), alpha=0.5, test_weight=10.0)
        assert np.isinf(calibration.beta)  # the same policy in every repeat
        found = tether.gain(calibration).changed
        estimates.append(found.mean)
        widths.append((found.upper - found.lower) / 2 / 1.96)
    assert np.mean(widths) == pytest.approx(np.std(estimates), rel=0.15)
    assert np.mean(estimates) == pytest.approx(0.3829, abs=0.003)


def test_contexts_of_which_the_distance_is_known_have_an_interval_for_other_contexts():
    world = FiniteWorld.draw(2)
    calibration = tether.calibrate(world.log(), alpha=0.9)
    found = tether.gain(calibration).changed
    assert found.effective_sample_size == pytest.approx(world.counts.sum())
    assert found.lower < found.mean < found.upper


@pytest.mark.parametrize("alpha", [0.1, 0.13])
def test_a_shortlist_without_rewards_says_how_many_decisions_change(alpha, tmp_path):
    """From the tables of its picks: clip of the soft pick against the uniform one, row by row."""
    rng = np.random.default_rng(0)
    safe, size = tether.Gaussian(0.0), 4
    shortlist = tether.Shortlist(safe, lambda _, drawn: drawn, size=size)
    actions = safe.sample(1000, rng)
    log = shortlist.make_log(None, actions, actions > 1.5, rng)
    found = tether.calibrate(log, alpha=alpha)
    assert found.exists
    pick = np.minimum(np.exp(log.log_optimized_all), found.beta / size)
    pick /= pick.sum(axis=1, keepdims=True)
    expected = np.maximum(pick - 1 / size, 0).sum(axis=1).mean()
    assert found.saved_gain.reward is None
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    for each in (found, loaded):
        assert each.saved_gain.changed.mean == pytest.approx(expected, rel=1e-9)
        assert "decisions that change" in str(each)
        assert "reward" not in str(each)
    assert str(loaded) == str(found)
    compared = tether.compare({"made": found, "loaded": loaded}).to_frame()
    np.testing.assert_allclose(compared["changed"], expected, rtol=1e-9)
    assert tether.verification.verify_record(tmp_path / "found.json", log=log).ok


@pytest.mark.parametrize("alpha", [0.001, 0.12, 0.5])
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_printed_result_states_the_share_of_the_gain(alpha, family):
    """No beta, a finite one, and an infinite one."""
    log = gaussian_log(np.random.default_rng(3), 400)
    found = tether.calibrate(log, alpha=alpha, family=family, test_weight=3.0)
    assert found._diagnostics.changed(found) == tether.gain(found).changed.mean
