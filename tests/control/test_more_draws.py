"""What twice the draws would buy."""

import numpy as np
import pytest

import tether
from tests.control.test_draw_plan import OPTIMIZED, SAFE, numbered
from tether.control.more_draws import _extrapolated, _halves, _random_sides


def calibrated(seed, *, blocks=2, rows=150, rewards=True, **changes):
    rng = np.random.default_rng(seed)
    contexts = numbered(rng.uniform(0, 5, size=rows))
    actions = SAFE.sample(contexts, rng)
    log = tether.make_log(
        SAFE, OPTIMIZED, contexts, actions, actions > 2, rewards=actions if rewards else None
    )
    proposals = tether.make_proposals(SAFE, OPTIMIZED, contexts, 4 * blocks, rng)
    given = {"alpha": 0.1, "family": "budgeted_clip(4)", **changes}
    return tether.calibrate(log, proposals, **given)


def test_halves_are_whole_blocks_without_draws_in_common():
    """Of five blocks two are in each half; a single block is in both."""
    rng = np.random.default_rng(0)
    counts = np.array([20, 4, 9])
    context = np.tile(np.repeat(np.arange(3), counts), 2)
    number = np.arange(len(context), dtype=float)  # tells the draws apart
    proposals = tether.Proposals(
        -number, -number - 1, context=context, source=np.repeat(["safe", "optimized"], 33)
    )
    first, second = _halves(proposals, _random_sides(proposals, 4, rng))
    for half in (first, second):
        for side in (half.from_safe, ~half.from_safe):
            assert np.bincount(half.context[side]).tolist() == [8, 4, 4]
    common = np.intersect1d(first.log_safe, second.log_safe)
    assert sorted(context[(-common).astype(int)]) == [1] * 8


def test_the_prediction_is_half_of_what_the_second_half_of_the_draws_brought():
    gain, error = _extrapolated(3.0, np.array([[1.0, 2.0], [2.5, 2.5]]))
    assert gain == pytest.approx((3.0 - 2.0) / 2)
    assert error == pytest.approx(np.sqrt(np.mean([1.0, 0.0]) / 2) / 2)
    gain, _ = _extrapolated(3.0, np.array([[1.0, -np.inf], [1.0, 1.0]]))
    assert gain == pytest.approx(1.0)
    assert np.isnan(_extrapolated(3.0, np.full((2, 2), np.nan))).all()


def test_predictions_agree_on_average_with_what_twice_the_draws_bring():
    predicted, brought = [], []
    for seed in range(12):
        found, more = calibrated(seed), calibrated(seed, blocks=4)
        predicted.append(tether.draws_worth(found, np.random.default_rng(0), splits=2))
        brought.append(more.log_beta - found.log_beta)
    gains = np.array([each.log_beta_gain for each in predicted])
    apart = gains - np.array(brought)
    assert abs(apart.mean()) < 3 * apart.std(ddof=1) / np.sqrt(len(apart))
    assert all(each.log_beta_error > 0 for each in predicted)
    assert all(each.reward_gain is None or each.reward_error >= 0 for each in predicted)
    assert "with twice the 2,400 draws, log beta would be" in str(predicted[0])


def test_without_rewards_none_is_predicted():
    found = tether.draws_worth(calibrated(0, rewards=False), np.random.default_rng(0), splits=2)
    assert found.reward_gain is None
    assert "reward" not in str(found)


def test_what_cannot_be_predicted_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="no context has two blocks of 4 draws"):
        tether.draws_worth(calibrated(0, blocks=1), rng)
    with pytest.raises(ValueError, match="must be of budgeted clip with proposals"):
        tether.draws_worth(calibrated(0, family="mix"), rng)
    with pytest.raises(ValueError, match="must have a beta that is neither 0 nor infinite"):
        tether.draws_worth(calibrated(0, alpha=0.001), rng)
    with pytest.raises(TypeError, match="calibration must be a Calibration, got int"):
        tether.draws_worth(3, rng)
