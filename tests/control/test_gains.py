"""What a calibration buys: means and intervals by definition, and how often they cover."""

import numpy as np
import pytest
from benchmarks.gains import QUANTITIES, misses
from benchmarks.worlds import draw
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import tether
from tests.control.worlds import table_log
from tether.control import estimates


def world(rng, rows, shift=1.0):
    a = rng.normal(size=rows)
    scores = -(a**2) / 2, -((a - shift) ** 2) / 2
    return tether.Log((a > 1.5) * 0.5, *scores, reward=a + rng.normal(size=rows))


def weights(log, log_beta, family="clip"):
    """The weights of the three policies by definition, up to a factor each."""
    ratio, log_beta = log.log_optimized - log.log_safe, np.clip(log_beta, -60, 60)
    clipped = np.minimum(ratio, log_beta) if family == "clip" else None
    mixed = np.logaddexp(0.0, log_beta + ratio)
    tethered = clipped if family == "clip" else mixed
    return {"safe": np.zeros(len(log)), "tethered": tethered, "optimized": ratio}


def ends(values, w, bound, confidence=0.95):
    """Both ends of an interval, from arrays with one more row each."""
    found = []
    for side, extreme in ((-1, values.min()), (1, values.max())):
        v, all_w = np.append(values, extreme), np.append(w, w.max())
        s = all_w / all_w.sum()
        m, mean = 1 / (s**2).sum(), (s * v).sum()
        if bound is None:
            half = stats.t.ppf((1 + confidence) / 2, m - 1) * np.sqrt(
                (s**2 * (v - mean) ** 2).sum()
            )
            found.append(mean + side * half)
            continue
        z2 = stats.norm.ppf((1 + confidence) / 2) ** 2
        center = (m * mean + z2 * bound / 2) / (m + z2)
        spread = m * m * (s**2 * (v - center) ** 2).sum() + z2 / 2 * (
            center**2 + (bound - center) ** 2
        )
        half = np.sqrt(z2 * spread / (m + z2)) / np.sqrt(m + z2)
        found.append(np.clip(center + side * half, 0, bound))
    return found


@pytest.mark.parametrize("family", ["clip", "mix"])
@given(st.integers(0, 1000))
@settings(max_examples=15)
def test_means_and_intervals_are_those_of_the_definitions(family, seed):
    log = world(np.random.default_rng(seed), 300)
    found = tether.calibrate(log, alpha=0.09, family=family, test_weight=20.0)
    for policy, log_w in weights(log, found.log_beta, family).items():
        w = np.exp(log_w - log_w.max())
        quantities = ((found.gain.reward, log.reward, None), (found.gain.losses["loss"], None, 1.0))
        for means, values, bound in quantities:
            values = log.loss["loss"] if values is None else values
            estimate = getattr(means, policy)
            if estimate.mean is None:
                continue
            np.testing.assert_allclose(estimate.mean, (w * values).sum() / w.sum(), rtol=1e-9)
            low, high = ends(values, w, bound)
            np.testing.assert_allclose((estimate.lower, estimate.upper), (low, high), rtol=1e-9)


@given(st.integers(0, 1000))
@settings(max_examples=15)
def test_the_difference_is_that_of_rows_in_pairs(seed):
    log = world(np.random.default_rng(seed), 300)
    found = tether.calibrate(log, alpha=0.1)
    difference, w = found.gain.reward.difference, weights(log, found.log_beta)
    t, s = np.exp(w["tethered"] - w["tethered"].max()), np.exp(w["safe"])
    for side, extreme, end in (
        (-1, log.reward.min(), difference.lower),
        (1, log.reward.max(), difference.upper),
    ):
        v, one, other = np.append(log.reward, extreme), np.append(t, t.max()), np.append(s, 1.0)
        one, other = one / one.sum(), other / other.sum()
        mean, usual = (one * v).sum(), (other * v).sum()
        error = np.sqrt(((one * (v - mean) - other * (v - usual)) ** 2).sum())
        size = min(t.sum() ** 2 / (t**2).sum(), len(s))
        wanted = mean - usual + side * stats.t.ppf(0.975, size - 1) * error
        np.testing.assert_allclose(end, wanted, rtol=1e-7)


def test_the_safe_policy_changes_nothing():
    log = world(np.random.default_rng(0), 300)
    found = tether.calibrate(log, alpha=0.001)
    assert not found.exists
    assert (found.gain.changed, found.gain.reward.difference.mean) == (0, 0)
    half = tether.Log([1.0] * 9, np.zeros(9), [-np.inf] * 4 + [0.0] * 5)
    assert tether.calibrate(half, alpha=0.1, blend=0).measured.changed == 0
    reward = found.gain.reward
    for name in ("mean", "lower", "upper"):
        safe, tethered = (getattr(each, name) for each in (reward.safe, reward.tethered))
        assert safe == pytest.approx(tethered, rel=1e-12)


def test_a_chain_that_is_spread_serves_the_mixture_of_its_betas():
    rng = np.random.default_rng(0)
    rows, known = np.arange(2000), rng.dirichlet(np.ones(4), (2, 6))
    safe, optimized = np.log(known[:, rng.integers(0, 6, 2000)])
    action = draw(np.exp(safe), rng)
    loss = (action == 0) * (rng.random(2000) < 0.3)
    log = table_log(loss, action, safe, optimized, reward=action * 1.0)
    found = tether.calibrate(log, promise=0.12, spread=True)
    assert found.measured.changed == found.gain.changed
    w = np.full(2000, found.chain.probabilities[0])
    for log_beta, share in zip(found.chain.log_betas, found.chain.probabilities[1:], strict=True):
        table = np.minimum(optimized, safe + np.clip(log_beta, -60, 60))
        density = table - np.logaddexp.reduce(table, axis=1, keepdims=True)
        w += share * np.exp(density[rows, action] - safe[rows, action])
    np.testing.assert_allclose(
        found.gain.reward.tethered.mean, (w * action).sum() / w.sum(), rtol=1e-6
    )


def test_intervals_cover_where_weights_are_heavy(monkeypatch):
    def missed():
        rngs = (np.random.default_rng(seed) for seed in range(60))
        found = [misses("heavy weights, clip", 1000, rng) for rng in rngs]
        return np.nanmean(found, axis=0)[QUANTITIES.index(("reward", "optimized"))]

    assert missed() < 0.15
    monkeypatch.setattr(estimates, "_with_row", lambda sums, *_: sums)
    assert missed() > 0.15


def test_nothing_is_stated_where_the_heavy_rows_are_missing():
    rng, known = np.random.default_rng(0), 0
    for _ in range(100):
        log = world(rng, 200, shift=2.0)
        unknown = tether.calibrate(log, alpha=0.12).gain.reward.optimized.unknown
        known += unknown is None
        assert unknown or np.exp(log.log_optimized - log.log_safe).mean() >= 0.85
    assert known < 10
