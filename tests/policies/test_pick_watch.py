"""Rows that are drawn as those of the log pass; the distance is the smallest a log can have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tether
from tether.policies import pick_watch
from tether.policies.pick_watch import PickWatch, by_chance, furthest_apart
from tether.policies.picker import Picker
from tether.policies.shortlist_rows import ShortlistRows

LEVELS = np.linspace(0, 1, 101)


def quantiles(values):
    return np.quantile(values, LEVELS, method="inverted_cdf")


def exact_distance(logged, served):
    """The largest difference of both distribution functions, by their definition."""
    points = np.concatenate([logged, served])
    return max(abs((logged <= at).mean() - (served <= at).mean()) for at in points)


values = st.lists(st.integers(0, 20), min_size=1, max_size=250).map(
    lambda each: np.array(each) / 20.0
)


@given(logged=values, served=values)
def test_the_distance_is_never_larger_than_the_exact_one_and_loses_little(logged, served):
    apart, _ = furthest_apart(quantiles(logged), served)
    exact = exact_distance(logged, served)  # values on a grid that is coarser than the rounding
    assert apart <= exact + 1e-9
    assert apart >= exact - 0.01 - 1e-9


@given(logged=values, noise=st.integers(0, 10**6))
def test_rounding_is_no_difference(logged, noise):
    rng = np.random.default_rng(noise)
    rounded = logged + rng.uniform(-0.5, 0.5, size=len(logged)) * pick_watch.SAME_PICK_TOLERANCE
    assert furthest_apart(quantiles(logged), rounded)[0] <= 1e-9


def calibrated(seed, rows=300):
    rng = np.random.default_rng(seed)
    shortlist = tether.Shortlist(tether.Gaussian(0.0), lambda _, drawn: drawn, size=4)
    actions = rng.normal(size=rows)
    return tether.calibrate(shortlist.make_log(rows, actions, actions > 1.5, rng), alpha=0.15)


def serve(found, scale, seed, batch=1, rows=600):
    """How many rows are served before the watch refuses."""
    rng, watch = np.random.default_rng(seed), PickWatch(found)
    picker = Picker(lambda _, drawn: scale * drawn, size=4)
    for served in range(0, rows, batch):
        try:
            watch.look(picker, ShortlistRows(batch, rng.normal(size=(batch, 4))))
        except ValueError:
            return served
    return rows


def test_rows_that_are_drawn_alike_are_never_refused():
    for seed in range(20):
        assert serve(calibrated(seed), 1.0, seed, batch=1 + seed) >= 600


@pytest.mark.parametrize(("scale", "most"), [(100.0, 31), (5.0, 127), (0.05, 127)])
def test_another_scale_is_refused_after_a_few_rows(scale, most):
    for seed in range(5):
        assert serve(calibrated(seed), scale, seed) <= most


def test_a_small_difference_is_a_warning_once_and_serves():
    found = calibrated(0, rows=20_000)
    with pytest.warns(tether.AssumptionWarning, match="picked otherwise") as noticed:
        assert serve(found, 1.5, 1, batch=100) >= 600
    assert len(noticed) == 1


def test_two_samples_of_one_distribution_are_within_what_chance_allows(monkeypatch):
    """The bound is one of DKW, so it holds for any probability: here for one that is seen."""
    monkeypatch.setattr(pick_watch, "DELTA", 0.1)
    rng, beyond = np.random.default_rng(0), 0
    for _ in range(400):
        logged, served = rng.random(150), rng.random(60)
        beyond += exact_distance(logged, served) > by_chance(150, 60)
    assert beyond / 400 <= 0.1
