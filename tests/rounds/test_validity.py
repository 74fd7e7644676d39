"""Complete runs in worlds where the risk is known; `benchmarks.rounds_validity` is the long one.

The last tests break the controller on purpose: the same measures must tell.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from benchmarks.rounds_validity import Verdict, simulate, tethered_run
from benchmarks.rounds_worlds import FiniteActions, GaussianPool, HeavyTails

import tether
from tests.scale import scaled
from tether.rounds import TrainingRows, calibrate_round

ROUNDS = 5
RUNS = {FiniteActions: scaled(40), GaussianPool: scaled(10), HeavyTails: scaled(10)}
"""As many as show that alpha breaks without tether."""
REACHED = {FiniteActions: 0.65, GaussianPool: 0.9, HeavyTails: 0.85}
"""How much of alpha the last round is to use at least: control is not to be had by idleness."""


def idle(world, verdict):
    return verdict.mean("risk")[-1] < REACHED[type(world)] * verdict.alpha


@pytest.mark.slow
@pytest.mark.parametrize("kind", REACHED)
def test_every_round_holds_alpha_and_reward_rises(kind):
    world = kind()
    alpha = world.alphas[-1]
    with_tether, without = (
        Verdict(runs, alpha) for runs in simulate(world, alpha, range(RUNS[kind]), ROUNDS)
    )
    assert with_tether.held.all(), (with_tether.mean("risk"), with_tether.mean("loss"))
    assert with_tether.rose
    assert not idle(world, with_tether), with_tether.mean("risk")
    assert without.over("risk").any(), without.mean("risk")


def broken(world):
    alpha = world.alphas[-1]
    runs = [tethered_run(world, alpha, seed, ROUNDS) for seed in range(6)]
    return Verdict(np.stack(runs), alpha)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a calibration on this log does not hold")
def test_a_forgotten_mixture_shows(monkeypatch):
    """As if the safe policy had taken every action of the past rounds."""
    monkeypatch.setattr(calibrate_round, "count_served", lambda served: {0: len(served)})
    for world in (FiniteActions(), GaussianPool()):
        assert idle(world, broken(world))


def test_wrong_counts_show(monkeypatch):
    """As if the newest of the policies had taken every action of the past rounds."""
    count_served = calibrate_round.count_served

    def newest_alone(served):
        return {max(count_served(served)): len(served)}

    monkeypatch.setattr(calibrate_round, "count_served", newest_alone)
    assert idle(GaussianPool(), broken(GaussianPool()))


@pytest.fixture(scope="module")
def feedback_loop():
    path = Path(__file__).parents[2] / "examples" / "feedback_loop.py"
    spec = importlib.util.spec_from_file_location("feedback_loop", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def harm(module, procedure, *, runs=8, rounds=4):
    """The mean harm of each round after the first, and its standard error."""
    clinic, found = module.Clinic(), []
    for run in range(runs):
        rng = np.random.default_rng([run, 2])
        more = (run,) if procedure == "run_tethered" else ()
        found.append(getattr(module, procedure)(clinic, rng, *more, rounds=rounds)[1:, 0])
    found = np.array(found)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(runs)


def test_the_naive_procedure_breaks_where_the_controller_holds(feedback_loop):
    alpha = feedback_loop.ALPHA
    mean, error = harm(feedback_loop, "run_naive")
    assert (mean > alpha + 3 * error).all()
    mean, error = harm(feedback_loop, "run_tethered")
    assert (mean <= alpha + 3 * error).all()


def test_an_optimizer_that_sees_calibration_rows_shows(feedback_loop, monkeypatch):
    def every_row(run):
        run._refresh()
        rows = run._rows
        return TrainingRows(
            np.arange(len(rows)) + 1,
            rows.round,
            rows.contexts,
            rows.actions,
            {"loss": rows.losses[:, 0]},
            rows.reward,
            rows.log_prob,
        )

    monkeypatch.setattr(tether.Controller, "training_rows", every_row)
    mean, error = harm(feedback_loop, "run_tethered")
    assert (mean[:2] > feedback_loop.ALPHA + 3 * error[:2]).all(), (mean, error)
