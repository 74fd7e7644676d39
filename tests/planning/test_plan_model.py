"""The model of a plan, against simulated calibrations."""

import numpy as np
import pytest

import tether
from tether._core.safe_excess import safe_mean
from tether.planning.clip_model import ClipModel
from tether.planning.mix_model import MixModel
from tether.planning.population import Population


@pytest.mark.parametrize(
    ("alpha", "safe_risk", "optimized_risk", "spread", "rows"),
    [(0.12, 0.06, 0.3, 1.0, 1000), (0.12, 0.06, 0.4, 1.5, 2000), (0.05, 0.02, 0.1, 1.0, 4000)],
)
def test_the_promise_to_expect_is_what_calibrations_state(
    alpha, safe_risk, optimized_risk, spread, rows
):
    model = ClipModel(Population.from_figures(safe_risk, optimized_risk, spread))
    rng = np.random.default_rng(1)
    shift = np.log([(1 - optimized_risk) / (1 - safe_risk), optimized_risk / safe_risk])
    stated = []
    for _ in range(40):
        harmful = (rng.random(rows) < safe_risk).astype(int)
        ratio = shift[harmful] + spread * rng.normal(size=rows) - spread**2 / 2
        drawn = (rng.random(rows) < optimized_risk).astype(int)
        top = shift[drawn] + spread * rng.normal(size=rows) + spread**2 / 2
        log = tether.Log(harmful, np.zeros(rows), ratio)
        proposals = tether.Proposals(np.zeros(rows), top)
        stated.append(tether.calibrate(log, proposals, alpha=alpha).promise)
    expected = model.outlook(alpha, rows).promise - alpha
    assert expected == pytest.approx(np.median(stated) - alpha, rel=0.25)


def test_the_existence_term_is_the_one_that_a_log_with_this_mean_loss_states():
    truth = Population.from_figures(0.1, 0.1, 1.0)
    for harmful in (9, 15, 24):
        model = ClipModel(truth.with_mean(harmful / 150))
        log = np.repeat([1.0, 0.0], [harmful, 150 - harmful])
        stated = safe_mean(log, 1.0).excess_where_passing(0.1)
        assert model.existence(0.1, 150) == pytest.approx(stated, rel=1e-6)


def test_more_rows_never_promise_less():
    model = ClipModel(Population.from_figures(0.06, 0.3, 1.0))
    betas = [model.boldest(0.12, rows) for rows in (350, 500, 1000, 10_000, 1_000_000)]
    assert all(found is not None for found in betas)
    assert sorted(found.beta for found in betas) == [found.beta for found in betas]
    assert sorted(found.alpha for found in betas) == [found.alpha for found in betas]
    assert betas[-1].promise == pytest.approx(0.12, rel=0.001)


@pytest.mark.parametrize("model", [ClipModel, MixModel])
def test_what_passes_still_passes_with_a_smaller_mean_loss_and_with_more_rows(model):
    truth = Population.from_figures(0.06, 0.3, 1.0)
    means, sizes = np.linspace(0.02, 0.11, 10), (50, 100, 200, 500, 1000, 5000)
    table = np.array(
        [[model(truth.with_mean(mean)).passes(0.12, rows) for mean in means] for rows in sizes]
    )
    assert table.any()
    assert not table.all()
    assert (np.diff(table.astype(int), axis=1) <= 0).all()
    assert (np.diff(table.astype(int), axis=0) >= 0).all()
    boldest = [model(truth).boldest(0.12, rows) is not None for rows in sizes]
    assert boldest == [model(truth).passes(0.12, rows) for rows in sizes]
