"""What the log lacks of a policy is told, and no mean is stated without it."""

import numpy as np
import pytest

import tether

SAFE = np.append(0.001, np.full(9, 0.111))
OPTIMIZED = np.append(0.5, np.full(9, 0.5 / 9))
REWARD = np.append(3.0, np.zeros(9))


def world(rng, rows, draws):
    """An action that the safe policy takes once in 1,000 rows, and that earns a lot."""
    action = rng.choice(10, size=rows, p=SAFE)
    log = tether.Log(
        rng.random(rows) < 0.02,
        np.log(SAFE)[action],
        np.log(OPTIMIZED)[action],
        reward=REWARD[action] + 0.5 * rng.normal(size=rows),
    )
    if not draws:
        return log, None
    drawn = np.concatenate([rng.choice(10, size=rows, p=each) for each in (SAFE, OPTIMIZED)])
    source = np.repeat(["safe", "optimized"], rows)
    return log, tether.Proposals(np.log(SAFE)[drawn], np.log(OPTIMIZED)[drawn], source=source)


def clip_probabilities(found):
    kernel = np.minimum(OPTIMIZED, found.beta * SAFE)
    return kernel / kernel.sum()


@pytest.mark.parametrize("draws", [True, False])
def test_intervals_of_clip_cover_the_truth_where_a_rare_action_is_most_of_the_gain(draws):
    """Without the check they cover it on 3 % of the logs on which they are stated."""
    rng, covered, unknown = np.random.default_rng(1), [], 0
    for _ in range(60):
        found = tether.calibrate(*world(rng, 500, draws), alpha=0.3)
        gain, policy = tether.gain(found), clip_probabilities(found)
        for stated, truth in (
            (gain.reward.tethered, policy @ REWARD),
            (gain.reward.difference, (policy - SAFE) @ REWARD),
            (gain.changed, np.maximum(policy - SAFE, 0).sum()),
        ):
            unknown += not stated.known
            covered += [stated.lower <= truth <= stated.upper] if stated.known else []
    assert unknown > 60
    assert np.mean(covered) > 0.75


def test_the_reason_names_the_share_that_may_be_missing():
    rng = np.random.default_rng(0)
    log, proposals = world(rng, 500, draws=True)
    while log.log_optimized.max() > np.log(0.4):  # until the rare action is in no row
        log, proposals = world(rng, 500, draws=True)
    found = tether.calibrate(log, proposals, alpha=0.3)
    text = tether.gain(found).reward.tethered.unknown
    assert text == "up to 50% of what this policy does may be in no row of the log"
    near = tether.calibrate(log, proposals, alpha=0.3, test_weight=30.0)
    assert near.beta > 1  # a test weight of one's own leaves beta where it is, and the log as it is
    assert "may be in no row" in tether.gain(near).changed.unknown


def test_where_little_can_be_missing_means_are_stated():
    rng = np.random.default_rng(0)
    log, _ = world(rng, 500, draws=False)
    while log.log_optimized.max() > np.log(0.4):
        log, _ = world(rng, 500, draws=False)
    found = tether.calibrate(log, alpha=float(log.loss["loss"].mean()) + 0.0025)
    assert found.beta < 1.2
    assert tether.gain(found).reward.tethered.known
