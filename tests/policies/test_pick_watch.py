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


def steeper(contexts, drawn):
    """A score whose scale depends on the context, so that the order of contexts matters."""
    return 6 * contexts[:, :1] * drawn


@pytest.fixture(scope="module")
def by_context():
    rng = np.random.default_rng(4)
    shortlist = tether.Shortlist(Drawn(), steeper, size=4)
    actions = rng.normal(size=1000)
    log = shortlist.make_log(rng.random((1000, 1)), actions, actions > 1.8, rng)
    return shortlist, tether.calibrate(log, alpha=0.1)


class Drawn:
    def sample(self, contexts, rng):
        return rng.normal(size=len(contexts))


def test_a_call_with_sorted_contexts_is_served(by_context):
    shortlist, found = by_context
    rng = np.random.default_rng(5)
    for _ in range(5):
        policy = shortlist.tethered(found)
        policy.sample(np.sort(rng.random((3000, 1)), axis=0), rng)
        assert len(policy._watch._seen) == pick_watch.LAST_LOOK


def test_several_actions_in_each_context_count_once(by_context):
    shortlist, found = by_context
    for seed in range(20):
        rng, policy = np.random.default_rng(seed), shortlist.tethered(found)
        for _ in range(12):
            policy.sample(np.repeat(rng.random((2, 1)), 48, axis=0), rng)
        assert len(policy._watch._seen) == 24


def test_a_score_of_another_scale_is_still_refused_in_one_call(by_context):
    shortlist, found = by_context
    rng, watch = np.random.default_rng(6), PickWatch(found)
    picker = Picker(lambda *given: 30 * steeper(*given), size=4)
    rows = shortlist.draw(np.sort(rng.random((3000, 1)), axis=0), rng)
    with pytest.raises(ValueError, match="candidates are picked otherwise"):
        watch.look(picker, rows)


@pytest.mark.parametrize(
    "contexts", [np.array(["a", "a", "b", "a"], dtype=object), [[1.0], [1.0], [2.0], [1.0]]]
)
def test_the_first_row_of_each_context_in_turn_is_looked_at(contexts):
    rows = ShortlistRows(np.array(contexts), np.zeros((4, 3)))
    assert pick_watch.looked_at(rows, 10).tolist() == [0, 2, 3]
    assert pick_watch.looked_at(rows, 2).tolist() == [0, 3]
    assert pick_watch.looked_at(ShortlistRows(4, np.zeros((4, 3))), 10).tolist() == [0, 1, 2, 3]


def test_contexts_that_cannot_be_compared_are_all_looked_at():
    pandas = pytest.importorskip("pandas")
    contexts = pandas.DataFrame({"ward": pandas.array([1, None, None], dtype="Int64")})
    rows = ShortlistRows(contexts, np.zeros((3, 2)))
    assert pick_watch.looked_at(rows, 10).tolist() == [0, 1, 2]
