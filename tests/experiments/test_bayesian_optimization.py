"""Bayesian optimization in small, and the Townsend function against its published optimum."""

import csv
import warnings

import numpy as np
import pytest

with warnings.catch_warnings():  # what BoTorch imports warns of what torch deprecates
    warnings.simplefilter("ignore")
    import botorch  # noqa: F401

from experiments.bayesian_optimization import __main__ as optimization
from experiments.bayesian_optimization import aimed, runs, townsend


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimization")
    optimization.main(["--quick", "--out", str(folder)])
    return folder


def rows(out, name):
    with (out / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_tether_holds_where_the_uncontrolled_does_not(out):
    found = {row["arm"]: row for row in rows(out, "totals") if row["alpha"] != "0.8"}
    for arm in ("aimed ramp", "shortlist"):
        assert found[arm]["holds_alpha"] == "True"
    assert float(found["tethered"]["risk"]) <= 0.4 + 3 * float(found["tethered"]["risk_error"])
    assert float(found["uncontrolled"]["risk"]) > 0.4
    assert float(found["uniform"]["risk"]) > 0.6
    assert 0.1 < float(found["safe"]["risk"]) < float(found["tethered"]["risk"])


def test_alpha_is_a_dial(out):
    found = {
        row["alpha"]: float(row["risk"]) for row in rows(out, "totals") if row["arm"] == "tethered"
    }
    assert found["0.8"] > found["0.4"]


def test_the_best_value_never_falls(out):
    found = {}
    for row in rows(out, "rounds"):
        found.setdefault((row["arm"], row["alpha"]), []).append(float(row["best"]))
    assert len(found) == 7
    for best in found.values():
        assert len(best) == 4
        assert (np.diff(best) >= 0).all()
        assert best[-1] <= 2.03


def test_every_result_is_written_and_the_seeds_are_cleared(out):
    for name in ("rounds.svg", "dial.svg", "aimed.svg", "townsend.svg", "run.txt"):
        assert (out / name).stat().st_size > 100
    assert not (out / "seeds").exists()


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    calls = []

    def run(*given):
        calls.append(given)
        yield {"row": len(calls)}

    monkeypatch.setattr(runs, "run", run)
    unit = (("aimed ramp", 1.0, 0.4), 3)
    first = runs.one_run({"alpha": 0.4}, tmp_path, unit)
    assert runs.one_run({"alpha": 0.4, "arms": ["ramp"]}, tmp_path, unit) == first
    assert len(calls) == 1
    runs.one_run({"alpha": 0.3}, tmp_path, unit)  # other settings, another run
    assert len(calls) == 2


def test_arms_that_are_not_run_keep_their_rows(out, tmp_path):
    import shutil

    folder = tmp_path / "again"
    shutil.copytree(out, folder)
    before = rows(folder, "totals")
    optimization.main(["--quick", "--out", str(folder), "--set", 'arms=["uniform", "safe"]'])
    after = rows(folder, "totals")
    assert sorted(row["arm"] for row in after) == sorted(row["arm"] for row in before)
    for row in before:
        same = next(
            each
            for each in after
            if (each["arm"], each["temperature"], each["alpha"])
            == (row["arm"], row["temperature"], row["alpha"])
        )
        assert float(same["best"]) == pytest.approx(float(row["best"]), rel=1e-5)


def test_a_ramp_holds_alpha_whatever_its_policies_do():
    """Policies that always violate, and seldom do: the mean risk of a round is at most alpha."""
    rng = np.random.default_rng(0)
    import tether

    costly = np.array([False] * 9 + [True])
    safe = tether.Pool.uniform(10)  # risk 0.1
    for harm in (1.0, 0.5):
        chance = np.where(costly, harm, (1 - harm) / 9)
        policy = tether.Pool(np.log(np.maximum(chance, 1e-12)))
        found = [
            aimed.ramp_round([2, 2, 3, 3], 0.4, safe, policy, safe.sample(30, rng), costly, rng)
            for _ in range(40)
        ]
        risk = np.array([each.risk for each in found])
        assert risk.mean() <= 0.4 + 3 * risk.std() / np.sqrt(len(risk))
        assert all(len(each.actions) == 10 for each in found)
        if harm == 1.0:  # no row of it can raise the share
            assert np.mean([each.share for each in found]) == pytest.approx(0.3, abs=0.05)


def test_predicted_violations_are_high_far_from_every_evaluation():
    settings = {"aim_length": 0.8, "aim_noise": 0.05, "aim_share": 0.5}
    candidates = np.array([[0.0, 0.0], [0.1, 0.0], [1.0, 0.0], [2.9, 2.9]])
    inside = np.array([True, True, False, True])
    predicted = aimed.predicted_violations(settings, candidates, np.array([0, 1, 2]), inside)
    assert predicted[0] < 0.3 < predicted[2]
    assert predicted[3] > 0.99  # nothing is known there, and its label was not used
    import tether

    policy = aimed.aim(settings, tether.Pool.uniform(4), predicted, 0.4)
    assert np.exp(policy.log_prob_all(1)[0]) @ predicted == pytest.approx(0.2, abs=1e-6)


def test_past_rounds_enter_through_their_mixture():
    """The calibration's weights are those of the mixture of what was deployed, by brute force."""
    settings = {"proposals": 500}
    rng = np.random.default_rng(0)
    points = np.linspace(-3, 3, 41)[:, None]
    import tether
    from tether import bo

    safe = bo.AcquisitionPool(lambda rows: -(rows[:, 0] ** 2) / 2, points)
    optimized = bo.AcquisitionPool(lambda rows: rows[:, 0], points)
    past = tether.Tethered(safe, optimized, 0.5)
    costly = points[:, 0] > 1
    held = [safe.sample(30, rng), past.sample(30, rng)]
    found = runs.calibrate(settings, 0.4, safe, optimized, [safe, past], held, costly, rng)
    p, q = np.exp(safe.log_prob_all(1)[0]), np.exp(optimized.log_prob_all(1)[0])
    half = np.minimum(q, 0.5 * p)
    mix = (p + half / half.sum()) / 2
    actions = np.concatenate(held)
    kernel = np.minimum(q, found.beta * p) / mix
    loss = costly[actions].astype(float)
    risk = (kernel[actions] @ loss + kernel.max()) / (kernel[actions].sum() + kernel.max())
    assert found.exists
    assert risk == pytest.approx(found.binding.risk, rel=1e-6)
    assert 0.39 < risk <= 0.4 * (1 + 1e-6) or found.beta == np.inf


def test_it_learns_from_feasible_points_alone():
    settings = {"half_width": 3.0, "fit_iterations": 5, "acquisition_samples": 16}
    points = np.array([[0.0, -1.0], [0.5, 0.0], [-0.5, -0.5], [0.0, 0.5], [2.9, 2.9]])
    rng = np.random.default_rng(0)
    policy = runs.learn(settings, points, np.arange(4), 1.0, rng)
    assert np.isclose(np.exp(policy.log_prob_all(1)).sum(), 1)
    assert policy.log_prob_all(1)[0].argmax() == 4  # the one that it has not seen


def test_the_published_optimum():
    at = np.array([townsend.OPTIMUM])
    assert townsend.objective(at)[0] == pytest.approx(2.0239884, abs=1e-6)
    assert townsend.feasible(at * 0.9999)[0]
    spread = np.random.default_rng(0).uniform(-3, 3, (200_000, 2))
    inside = townsend.feasible(spread)
    assert townsend.objective(spread[inside]).max() <= 2.0239884 + 1e-6
    assert inside.mean() == pytest.approx(0.363, abs=0.005)
