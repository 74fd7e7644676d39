"""The terms of a promise by alpha: what each is, and what they add up to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.control.worlds import make_world
from tether._core.promises import SafeMean
from tether.control.calibrate import calibrate
from tether.control.calibration import PromiseTerms
from tether.control.log import Log, Proposals
from tether.control.promise import unforeseen_term

pytestmark = pytest.mark.filterwarnings("ignore::tether.AssumptionWarning")


def test_the_total_is_at_most_the_bound():
    assert PromiseTerms(0.1, 3.0, 0.0, 0.0, bound=1.0).total == 1.0


@pytest.mark.parametrize("mixture", [False, True])
def test_the_safe_excess_is_that_of_the_weighted_losses(mixture):
    for seed in range(10):
        world = make_world(seed, "clip", rows=60, mixture=mixture)
        found = world.calibrate()
        w, harm = np.exp(world._base(world.columns)), world.losses["harm"]
        mean = w @ harm / w.sum()
        spread = np.sum((w * (harm - mean)) ** 2) + (w.max() * (1 - mean)) ** 2
        safe = SafeMean(mean, np.sqrt(spread) / (w.sum() + w.max()))
        loss = found.losses["harm"]
        assert loss.safe_mean == pytest.approx(safe.mean)
        assert loss.safe_error == pytest.approx(safe.standard_error)
        expected = safe.excess_where_passing(loss.alpha)
        assert loss.terms.safe_excess == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_what_no_draw_foresees():
    rng = np.random.default_rng(0)
    log = Log(np.zeros(200), *rng.normal(-2, 0.2, (2, 200)))
    for draws in (1, 10, 1000):
        found = calibrate(log, Proposals(*rng.normal(-2, 0.2, (2, draws))), alpha=0.1)
        share = 1 / (draws + 1)
        expected = 0.9 * (share - (1 - share) / 200) + share / 200
        stated = found.losses["loss"].terms.unforeseen
        assert stated == pytest.approx(np.clip(expected, 0.0, 0.9 * share))
    assert calibrate(log, alpha=0.1).losses["loss"].terms.unforeseen == 0  # analytic
    assert unforeseen_term(1.0, 10, 0.1, 1.0) == pytest.approx(0.9)


def test_with_a_mixture_the_unforeseen_term_grows_by_one_over_psi():
    rng = np.random.default_rng(0)
    safe, optimized = rng.normal(-2, 0.5, (2, 400))
    loss = optimized - safe > 0.4
    mixed = {"log_mix": np.logaddexp(safe, optimized) - math.log(2), "safe_share": 0.5}
    drawn = rng.normal(-2, 0.5, (2, 300))
    draws = Proposals(*drawn, log_mix=np.logaddexp(*drawn) - math.log(2))
    found = calibrate(Log(loss, safe, optimized, **mixed), draws, alpha=0.2)
    assert np.isfinite(found.log_beta)
    share = 1 / 301 / min(found.beta, 1.0)
    share = min(share, max(found.beta, 1.0) / 1) / found.measured.acceptance  # no safe draws
    expected = unforeseen_term(min(share, 1.0), 400, 0.2, 1.0)
    assert found.losses["loss"].terms.unforeseen == pytest.approx(expected)


@pytest.mark.parametrize("in_contexts", [False, True])
def test_along_a_path_the_level_with_the_fewest_draws_decides(in_contexts):
    world = make_world(0, "path", rows=50)
    if in_contexts:
        world.columns["context"] = np.arange(50)
        world.draws["context"] = np.arange(40)
    found = world.calibrate()
    assert found.exists
    alpha = world.alphas["harm"]
    expected = (1 - alpha) / 11
    if in_contexts:
        weights = world.weights(found.log_beta) * (world.losses["harm"] - alpha)
        t = 1 + math.sqrt((1 - alpha) * 51 / (10 * alpha))
        expected = (1 - alpha) / 10 * t / (t - 1) + (t * alpha + max(weights.max(), 0.0)) / 51
    assert found.losses["harm"].terms.unforeseen == pytest.approx(expected)
