"""Runs on shortlists: candidates are stored with their rows, and past rounds stay exact."""

import numpy as np
import pytest

import tether
from tests.rounds.export_audit import recompute_calibrations
from tether import Gaussian, Shortlist
from tether.rounds import Controller, calibrate_round, export_run, read_history


class Draws:
    """A safe policy without log-probabilities."""

    def sample(self, contexts, rng):
        return rng.normal(contexts)

    def log_prob(self, contexts, actions):
        raise AssertionError("the safe policy's log_prob is never needed")


def bolder(weight):
    return lambda contexts, candidates: weight * (candidates - contexts[:, None])


def harm(contexts, actions):
    return (actions > contexts + 1.5).astype(float)


SETTINGS = {"alpha": 0.15, "alarm_risk": 0.9}


def make_run(store, rounds=3, size=4, rng=None, **options):
    """A recorded log of the safe policy, then rounds of bolder scores."""
    rng = np.random.default_rng(0) if rng is None else rng
    run = Controller(Shortlist(Draws(), size=size), store=store, **(SETTINGS | options))
    contexts = rng.normal(size=300)
    taken = run.begin().record(contexts, Draws().sample(contexts, rng), rng)
    run.observe(taken.ids, harm(taken.contexts, taken.actions))
    for number in range(2, rounds + 2):
        round_ = run.begin(bolder(number / 2))
        contexts = rng.normal(size=200)
        taken = round_.act(contexts, rng)
        round_.observe(taken.ids, harm(contexts, taken.actions), taken.actions - contexts)
    return run


POLICIES = {f"round {number}": bolder(number / 2) for number in range(2, 9)}


def test_the_densities_of_past_rounds_are_tables_over_the_stored_candidates():
    """The mixture of the last calibration, from the candidates alone."""
    with make_run("sqlite://") as run:
        logs = []
        calibrate = calibrate_round.calibrate

        def keep(log, *args, **options):
            logs.append(log)
            return calibrate(log, *args, **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(calibrate_round, "calibrate", keep)
            run.begin(bolder(4.0))
        rows = run._rows
        kept = np.flatnonzero(rows.calibration)
        z = rows.contexts[kept]
        counts, mixture = np.bincount(rows.served[kept]), 0.0
        for number, count in enumerate(counts):
            density = np.full((len(kept), 4), 0.25)
            if number > 1:
                table = np.exp(bolder(number / 2)(z.contexts, z.candidates))
                table /= table.sum(axis=1, keepdims=True)
                clipped = np.minimum(table, run.history().rounds[number - 1].beta / 4)
                density = clipped / clipped.sum(axis=1, keepdims=True)
            mixture = mixture + count / len(kept) * density
        np.testing.assert_allclose(np.exp(logs[0].log_mix_all), mixture)
        np.testing.assert_allclose(logs[0].log_safe_all, -np.log(4))


def test_a_run_goes_on_after_a_restart(store_url):
    make_run(store_url).close()
    shortlist, rng = Shortlist(Draws(), size=4), np.random.default_rng(3)
    with Controller(shortlist, store=store_url, policies=POLICIES, **SETTINGS) as run:
        assert run.history().shortlist == 4
        before = run.round.beta
        assert before == read_history(store_url).rounds[-1].beta > 0
        taken = run.round.act(np.zeros(20), rng)
        run.observe(taken.ids, harm(np.zeros(20), taken.actions))
        assert run.begin(bolder(3.0)).calibration.exists
    changed = POLICIES | {"round 3": bolder(7.0)}
    with (
        Controller(shortlist, store=store_url, policies=changed, **SETTINGS) as run,
        pytest.raises(ValueError, match="is not the 'round 3' of this store"),
    ):
        run.begin(bolder(3.5))
    with pytest.raises(ValueError, match=r"shortlist is 8 but .* was created with 4"):
        Controller(Shortlist(Draws(), size=8), store=store_url, **SETTINGS)
    with pytest.raises(ValueError, match=r"shortlist is None but .* was created with 4"):
        Controller(Gaussian(0.0), store=store_url, **SETTINGS)


def test_every_calibration_can_be_recomputed_from_the_export_alone(tmp_path):
    with make_run(tmp_path / "run.db") as run:
        made = run.history().rounds[1:]
    export_run(tmp_path / "run.db", tmp_path / "run.parquet")
    found = recompute_calibrations(tmp_path / "run.parquet")
    assert len(found) == len(made) == 3
    for record in made:
        log_beta, risk = found[record.number]
        assert record.calibration.log_beta <= log_beta + 1e-6
        assert record.calibration.log_beta == pytest.approx(log_beta, abs=0.02)
        assert risk == pytest.approx(record.calibration.binding.risk, rel=1e-6)


# --- validity over rounds: worlds of tests/policies/test_shortlist_validity.py


def draw_far(contexts, rng):
    return rng.normal(size=len(contexts))


def far_losses(contexts, actions):
    return (contexts == 1) * np.clip((actions + 0.5) / 3, 0, 1)


def learned(rows):
    """A score that grows with the reward seen in training rows: large actions pay."""
    slope = np.polyfit(rows.actions, rows.reward, 1)[0]
    return lambda contexts, candidates: (
        np.where(contexts == 1, 5.0, 0.3)[:, None] * slope * candidates
    )


def simulated_risks(runs, rounds=4, alpha=0.2, size=8):
    new = np.random.default_rng(7).integers(2, size=4_000)
    risks = np.empty((runs, rounds - 1))
    for seed in range(runs):
        rng = np.random.default_rng([8, seed])
        with Controller(Shortlist(draw_far, size=size), alpha=alpha, alarm_risk=0.9,
                        calibration_share=0.7, store="sqlite://") as run:  # fmt: skip
            score = None
            for number in range(rounds):
                contexts = rng.integers(2, size=200)
                round_ = run.begin(score)
                if number:
                    risks[seed, number - 1] = far_losses(new, round_.policy.sample(new, rng)).mean()
                taken = round_.act(contexts, rng)
                run.observe(taken.ids, far_losses(contexts, taken.actions), taken.actions)
                score = learned(run.training_rows())
    return risks


def test_a_single_normalizer_for_all_candidates_breaks_alpha(monkeypatch):
    def without_contexts(log, proposals, **options):
        columns = {"log_mix": log.log_mix, "safe_share": log.safe_share}
        marginal = tether.Log(log.loss, log.log_safe, log.log_optimized, **columns)
        found = calibrate(marginal, **options)
        object.__setattr__(found, "contextual", True)
        return found

    calibrate = calibrate_round.calibrate
    monkeypatch.setattr(calibrate_round, "calibrate", without_contexts)
    risks = simulated_risks(8)
    assert (risks.mean(0) > 0.2 + 3 * risks.std(0) / np.sqrt(len(risks))).all(), risks.mean(0)
