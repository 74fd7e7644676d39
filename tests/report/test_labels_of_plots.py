"""No label of a plot covers another one or leaves the figure, whatever the result."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import tether
from tests.report import example_histories, figure_texts
from tests.report.releases import example_releases
from tests.scale import scaled

FEW = settings(max_examples=scaled(6), deadline=None)
SEEDS = st.integers(0, 10**6)
LEVELS = st.sampled_from([0.001, 0.02, 0.06, 0.1, 0.2, 0.4, 0.7, 0.95])


def require_clear(figure):
    assert figure_texts.overlaps(figure) == []
    assert figure_texts.cut_off(figure) == []


def random_log(seed, shift, losses=1):
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=int(rng.integers(20, 400)))
    made = {f"loss {k}": actions > 1.5 - 0.4 * k for k in range(losses)}
    optimized = -((actions - shift) ** 2) / 2
    optimized = np.where(rng.random(len(actions)) < 0.1 * (seed % 2), -np.inf, optimized)
    given = made if losses > 1 else made["loss 0"]
    return tether.Log(given, -(actions**2) / 2, optimized, reward=actions)


def random_claims(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, int(rng.integers(10, 120)))
    scores = rng.normal(size=sizes.sum()) * 10.0 ** rng.integers(-3, 4)
    ranks = np.argsort(np.argsort(scores)) / max(len(scores), 1)
    labels = rng.random(len(scores)) < 0.3 + 0.7 * ranks
    return tether.Claims(scores, labels, np.append(0, sizes.cumsum()))


def test_two_texts_at_the_same_place_are_found():
    figure = Figure()
    axes = figure.add_subplot()
    axes.set_title("the title", loc="left")
    axes.text(0.0, 1.01, "a label", transform=axes.transAxes)
    axes.text(0.9, 0.5, "a label that is far too long", transform=axes.transAxes)
    assert figure_texts.overlaps(figure) == [("a label", "the title")]
    assert figure_texts.cut_off(figure) == ["a label that is far too long"]


@FEW
@given(seed=SEEDS, shift=st.sampled_from([0.0, 0.5, 1.0, 3.0]), alpha=LEVELS)
def test_of_calibrations_and_logs(seed, shift, alpha):
    log = random_log(seed, shift)
    require_clear(tether.calibrate(log, alpha=alpha).plot())
    require_clear(log.plot())


@FEW
@given(seed=SEEDS, alpha=LEVELS)
def test_of_several_losses(seed, alpha):
    log = random_log(seed, 1.0, losses=3)
    alphas = {name: alpha * (1 + k) / 4 for k, name in enumerate(log.loss)}
    require_clear(tether.calibrate(log, alpha=alphas).plot())
    require_clear(log.plot())


@FEW
@given(seed=SEEDS, alpha=LEVELS, loss=st.sampled_from(["fdr", "miss", ["fdr", "any_false"]]))
def test_of_selections(seed, alpha, loss):
    claims = random_claims(seed)
    require_clear(tether.gcrc(claims, alpha=alpha, loss=loss).plot())
    groups = np.arange(claims.n_items) % 3
    require_clear(tether.crc(claims, alpha=alpha, loss=loss, groups=groups).plot())


@FEW
@given(seed=SEEDS, alphas=st.lists(LEVELS, min_size=1, max_size=6))
@example(seed=1785, alphas=[0.001, 0.001, 0.001, 0.001, 0.2])
@example(seed=1785, alphas=[0.2, 0.95])
@example(seed=7, alphas=[0.2, 0.001, 0.95, 0.4])
@example(seed=214335, alphas=[0.001, 0.95])
def test_of_comparisons(seed, alphas):
    log = random_log(seed, 1.0)
    found = [
        tether.calibrate(log, alpha=a, family=f, test_weight=w)
        for a in alphas
        for f, w in (("clip", "empirical"), ("mix", 50.0))
    ]
    require_clear(tether.compare(found).plot())
    claims = random_claims(seed)
    methods = (tether.gcrc, tether.crc, tether.monotonized_crc, tether.ltt)
    require_clear(tether.compare([m(claims, alpha=alphas[0]) for m in methods]).plot())


@FEW
@given(
    alpha=LEVELS,
    share=st.sampled_from([0.0, 0.2, 0.9, 1.0, 1.1]),
    bound=st.sampled_from([1.0, 0.01, 300.0]),
)
def test_of_plans(alpha, share, bound):
    risk = min(share * alpha, 0.99) * bound
    try:
        made = tether.plan(alpha=alpha * bound, bound=bound, safe_risk=risk)
    except ValueError:  # more rows than can be planned for
        return
    require_clear(made.plot())


@pytest.mark.parametrize("name", sorted(example_histories.EXAMPLES))
def test_of_runs_and_rounds(name):
    history = example_histories.example(name)
    require_clear(history.plot())
    for record in history.rounds[-2:]:
        require_clear(record.plot())


@pytest.mark.parametrize("name", sorted(example_releases.EXAMPLES))
def test_of_releases(name):
    require_clear(example_releases.example(name).plot())
