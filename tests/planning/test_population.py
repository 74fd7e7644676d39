"""What a plan takes for the truth has the moments of the rows, or of the simple model."""

import numpy as np
import pytest

from tether.planning.population import Population

RNG = np.random.default_rng(0)


def moments(share, loss, ratio):
    return [
        share @ (loss**power * np.minimum(ratio, limit))
        for power in (0, 1, 2)
        for limit in (0.3, 1.0, 3.0, np.inf)
    ]


@pytest.mark.parametrize("graded", [False, True])
def test_rows_that_are_counted_together_have_the_moments_of_the_rows(graded):
    rows = 30_000
    log_ratio = RNG.normal(size=rows) - 0.5
    harm = 1 / (1 + np.exp(2 - log_ratio))
    loss = np.minimum(RNG.gamma(0.3, harm), 1.0) if graded else (RNG.random(rows) < harm) + 0.0
    weight = RNG.random(rows)
    weight /= weight.sum()
    found = Population.from_rows(weight, loss, log_ratio)
    assert len(found.share) < 3000
    assert (np.diff(found.log_ratio) >= 0).all()
    assert found.share.sum() == pytest.approx(1)
    assert found.mean == pytest.approx(weight @ loss)
    expected = moments(weight, loss, np.exp(log_ratio))
    assert moments(found.share, found.loss, found.ratio) == pytest.approx(expected, rel=0.02)
    for draws in (10, 1000, 20_000):
        order = np.argsort(log_ratio)
        below = np.cumsum((weight * np.exp(log_ratio))[order])
        largest = log_ratio[order][np.searchsorted(below / below[-1], 1 - np.log(2) / draws)]
        assert found.largest_log_ratio(draws) == pytest.approx(largest, abs=0.15)
    assert found.smallest_log_ratio(rows) == pytest.approx(log_ratio.min(), abs=0.3)


def test_few_kinds_are_kept_as_they_are():
    found = Population.from_rows(
        np.full(6, 1 / 6), np.array([0, 0, 0.5, 1, 0, 0]), np.log([2.0, 1, 1, 2, 1, 1])
    )
    assert found.share == pytest.approx([3 / 6, 1 / 6, 1 / 6, 1 / 6])
    assert found.ratio == pytest.approx([1, 1, 2, 2])


@pytest.mark.parametrize("spread", [1e-3, 0.5, 1.0, 3.0])
def test_the_simple_model_has_its_risks_and_its_spread(spread):
    found = Population.from_figures(0.06, 0.3, spread)
    harmful = found.loss > 0
    assert found.share @ found.loss == pytest.approx(0.06)
    assert found.share @ (found.loss * found.ratio) == pytest.approx(0.3, rel=1e-6)
    assert found.share @ found.ratio == pytest.approx(1, rel=1e-6)
    share = found.share[harmful] / 0.06
    center = share @ found.log_ratio[harmful]
    assert center == pytest.approx(np.log(5) - spread**2 / 2, abs=1e-2)
    spread_found = np.sqrt(share @ np.square(found.log_ratio[harmful] - center))
    assert spread_found == pytest.approx(spread, rel=0.01, abs=1e-6)


def test_given_a_mean_loss_harmful_actions_are_as_many():
    truth = Population.from_figures(0.1, 0.3, 1.0)
    more = truth.with_mean(0.14)
    assert more.mean == pytest.approx(0.14)
    harmful = truth.loss > 0
    assert more.share[harmful] == pytest.approx(1.4 * truth.share[harmful])
    assert more.share[~harmful] == pytest.approx(0.86 / 0.9 * truth.share[~harmful])
    none = truth.with_mean(0.0)
    assert none.mean == pytest.approx(0, abs=1e-12)
    assert none.with_mean(0.2) is none
    assert truth.loss_size == pytest.approx(1.0)


def test_only_what_is_never_taken_is_blended():
    far = np.array([-np.inf, -2000.0, 0.0, 0.5])
    found = Population.from_rows(np.full(4, 0.25), np.zeros(4), far)
    assert found.log_ratio == pytest.approx([-np.inf, -600, 0, 0.5])
    assert found.blended().ratio == pytest.approx([0.01, 0.01, 1, 0.99 * np.exp(0.5) + 0.01])
    some = Population.from_rows(np.full(3, 1 / 3), np.zeros(3), far[1:])
    assert some.blended() is some
    many = np.append(np.full(3, -np.inf), RNG.normal(size=5000))
    rows = Population.from_rows(np.full(5003, 1 / 5003), np.zeros(5003), many)
    assert rows.share[rows.log_ratio == -np.inf] == pytest.approx([3 / 5003])
    assert np.isneginf(Population.from_figures(0.1, 1.0, 1.0).log_ratio).any()
