"""Aiming a round: what is fitted, chosen, calibrated and told."""

import json

import numpy as np
import pytest

import tether
from tests.rounds.aims.aimed_runs import (
    ALPHA,
    AT_ALPHA,
    QUICK,
    WORLD,
    act,
    begun,
    last_aim,
    new_run,
)
from tests.rounds.small_runs import refreshed_rows
from tether.aiming import AimedPolicy, predicted_losses
from tether.policies import ShortlistRows
from tether.rounds import AimRecord, AimSettings, Controller

TRUE = AimSettings(loss_model=WORLD.harm, choose=False)


def test_a_round_calibrates_the_aimed_policy_and_tells_what_it_predicts():
    with new_run(aim=TRUE) as run:
        round_ = begun(run, 2)
        aim, x = last_aim(run), run.training_rows().contexts
        assert isinstance(round_.policy.optimized, AimedPolicy)
        assert round_.beta > 0
        models = {"loss": WORLD.harm}
        assert aim.predicted == pytest.approx(predicted_losses(round_.policy, models, x))
        assert aim.before == pytest.approx(predicted_losses(WORLD.optimized, models, x))
        assert aim.aimed["loss"] == pytest.approx(ALPHA)
        assert (aim.candidate, aim.models) == ("aimed × 1", {"loss": "given"})
        assert aim.multipliers["loss"] > 0
        plain = new_run(aim=False)
        assert aim.plain_log_beta == pytest.approx(begun(plain, 2).calibration.log_beta)


def test_a_choice_is_told_with_its_reasons():
    with new_run(aim=QUICK) as run:
        round_ = begun(run, 2, rows=600)
        aim = last_aim(run)
        assert aim.models["loss"] in ("linear", "trees")
        assert next(iter(aim.estimates)) == "plain"
        assert aim.chosen_by == "reward"
        assert aim.candidate.startswith("aimed ×")
        lead = aim.estimates[aim.candidate].lead
        assert lead > 0
        assert aim.why.startswith(f"expected to earn {lead:.3g} ±")
        assert AimRecord.from_json(aim.to_json()) == aim
        assert round_.policy.optimized.multipliers == aim.multipliers


def test_calibration_rows_cannot_influence_the_aimed_policy():
    """The same run, with other contexts, losses and rewards of the calibration rows."""
    found = []
    with new_run() as run:
        rng = np.random.default_rng(0)
        taken = run.begin().act(rng.random(500), rng)
        calibration = refreshed_rows(run).calibration
    assert 200 < calibration.sum() < 300
    for changed in (False, True):
        with new_run(aim=QUICK, alpha=0.15) as run:
            rng, noise = np.random.default_rng(0), np.random.default_rng(1)
            x = rng.random(500)
            where = calibration & changed
            x = np.where(where, 0.9 * x, x)
            again = run.begin().act(x, rng)
            assert np.array_equal(again.actions, taken.actions)
            assert np.array_equal(refreshed_rows(run).calibration, calibration)
            harmed = (noise.random(500) < 0.9) & (x > 0.5) & (taken.actions > 1)
            harmed = np.where(where & (x > 0.85), ~harmed, harmed)
            benefit = taken.actions + noise.normal(size=500)
            run.observe(again.ids, harmed.astype(float), np.where(where, -benefit, benefit))
            found.append((run.begin(WORLD.optimized), last_aim(run)))
    (round_, aim), (other_round, other) = found
    assert aim.digest == other.digest is not None  # of the aimed policy and its loss models
    assert aim.estimates == other.estimates
    assert (aim.before, aim.aimed, aim.why) == (other.before, other.aimed, other.why)
    assert aim.candidate != "plain"
    assert round_.calibration.log_beta != other_round.calibration.log_beta


def test_the_same_seed_gives_the_same_policy_and_another_seed_may_not():
    digests = []
    for seed in (0, 0, 1):
        with new_run(aim=AT_ALPHA, seed=seed) as run:
            begun(run, 2, rows=500)
            digests.append(last_aim(run).digest)
    assert digests[0] == digests[1] != digests[2]


def test_rows_of_past_rounds_are_weighted_by_their_mixture():
    with new_run(aim=QUICK) as run:
        begun(run, 3, rows=200)
        aim = last_aim(run)
        assert aim.rows == len(run.training_rows())
        assert run.history().rounds[2].calibration.exists


def test_nothing_to_aim_by_is_the_plain_policy():
    with new_run(aim=QUICK) as run:
        rng = np.random.default_rng(0)
        run.begin(WORLD.optimized)
        assert last_aim(run).why == "there are no training rows yet"
        assert last_aim(run).predicted == {}
        taken = run.round.act(rng.random(200), rng)
        run.observe(taken.ids, np.zeros(200))
        round_ = run.begin(WORLD.optimized)
        assert last_aim(run).why == "no pattern in the losses was found"
        assert round_.policy.optimized is WORLD.optimized
        assert last_aim(run).plain_log_beta == round_.calibration.log_beta
    with new_run(aim=AT_ALPHA, alpha=0.8) as run:
        begun(run, 2)
        assert last_aim(run).candidate == "plain"


@pytest.mark.parametrize("choosing", [True, False])
def test_where_every_action_loses_alike_nothing_is_said_of_alpha_alone(choosing):
    alike = AimSettings(loss_model=lambda contexts, actions: 0.5 + 0 * actions, choose=choosing)
    with new_run(aim=alike) as run:
        begun(run, 2, rows=100)
        aim = last_aim(run)
        assert aim.before["loss"] == pytest.approx(0.5)
        assert aim.why == "it is predicted to lose at most alpha, or as much whatever it does"


def test_an_alarm_or_no_policy_needs_no_aim():
    with new_run() as run:
        begun(run, 2)
        run.begin()
        assert last_aim(run) is None
        run.halt("a drill")
        run.begin(WORLD.optimized)
        assert last_aim(run) is None


def test_several_losses_have_a_multiplier_each():
    rng = np.random.default_rng(0)
    limits = {"alpha": {"harm": 0.1, "cost": 3.0}, "bound": {"harm": 1.0, "cost": 10.0}}
    alarms = {"alarm_risk": {"harm": 0.9, "cost": 9.0}}
    with Controller(WORLD.safe, store="sqlite://", aim=AT_ALPHA, **limits, **alarms) as run:
        taken = run.begin().act(rng.random(500), rng)
        harmed, _ = WORLD.outcome(taken.contexts, taken.actions, rng)
        run.observe(taken.ids, {"harm": harmed, "cost": 2.0 * taken.actions})
        run.begin(WORLD.optimized)
        aim = last_aim(run)
        assert set(aim.multipliers) == set(aim.predicted) == {"harm", "cost"}
        assert aim.before["cost"] > 3.0
        assert aim.aimed["cost"] <= 3.003
        assert json.loads(aim.to_json())["aimed"] == aim.aimed


@pytest.mark.parametrize("aim", [AT_ALPHA, AimSettings(multiples=(1.0,), temperatures=(1.0,))])
def test_shortlists_are_aimed_and_picked_from(aim):
    rng = np.random.default_rng(0)
    shortlist = tether.Shortlist(tether.Gaussian(0.0), size=6)
    score = lambda contexts, candidates: 1.5 * candidates  # noqa: E731
    with Controller(shortlist, alpha=0.1, store="sqlite://", aim=aim, alarm_risk=0.9) as run:
        for number in range(3):
            round_ = run.begin(score if number else None)
            taken = round_.act(rng.random(250), rng)
            harmed = (taken.actions > 1) & (taken.contexts > 0.5)
            run.observe(taken.ids, harmed.astype(float), rewards=taken.actions)
        aim = last_aim(run)
        assert aim.candidate.startswith("aimed ×")
        picker = round_.policy.pick.optimized
        rows = ShortlistRows(np.array([0.1, 0.9]), np.tile([-1.0, 0, 0.5, 1.5, 2, 2.5], (2, 1)))
        harmless, harmful = np.exp(picker.log_prob_all(rows))[:, 3:].sum(axis=1)
        assert harmful < harmless
        assert aim.predicted["loss"] < aim.before["loss"]


def harm_above_one(contexts, actions):
    """The true loss in the test below: of an action, not of its position in a shortlist."""
    return 0.5 * (np.asarray(actions) > 1)


@pytest.mark.parametrize("how", ["loss_model", "fit"])
def test_on_shortlists_a_loss_model_sees_actions_and_not_their_positions(how):
    rng = np.random.default_rng(0)
    fitted = []

    def fit(rows, rng):
        fitted.append(rows)
        return harm_above_one

    aim = AimSettings(choose=False, **{how: harm_above_one if how == "loss_model" else fit})
    shortlist = tether.Shortlist(tether.Gaussian(0.0), size=8)
    with Controller(shortlist, alpha=0.1, store="sqlite://", aim=aim, alarm_risk=0.9) as run:
        taken = run.begin().act(300, rng)
        run.observe(taken.ids, harm_above_one(None, taken.actions))
        run.begin(tether.Gaussian(1.5))
        aim, candidates = last_aim(run), run.training_rows().candidates
    ratios = np.exp(1.5 * candidates)
    chances = ratios / ratios.sum(axis=1, keepdims=True)
    losses = (chances * harm_above_one(None, candidates)).sum(axis=1)
    assert aim.before["loss"] == pytest.approx(losses.mean())
    assert aim.aimed["loss"] == pytest.approx(0.1)
    assert all(set(rows.actions) <= set(taken.actions) for rows in fitted)


def test_a_pool_without_contexts():
    rng, losses = np.random.default_rng(0), np.array([0.0, 0.1, 0.0, 0.6, 0.0, 0.9])
    safe, optimized = tether.Pool.uniform(6), tether.Pool(np.arange(6.0))
    with Controller(safe, alpha=0.3, store="sqlite://", aim=AT_ALPHA, alarm_risk=0.9) as run:
        taken = run.begin().act(400, rng)
        run.observe(taken.ids, losses[taken.actions], rewards=taken.actions)
        round_ = run.begin(optimized)
        chances = np.exp(round_.policy.optimized.log_prob_all(1))[0]
        assert chances[4] > chances[5]
        assert last_aim(run).aimed["loss"] == pytest.approx(0.3)
        assert last_aim(run).plain_log_beta < np.inf


@pytest.mark.parametrize("options", [{"family": "mix"}, {"against": "last"}, {"confidence": 0.9}])
def test_other_settings_of_a_run(options):
    with new_run(**options) as run:
        round_ = begun(run, 3)
        assert last_aim(run).candidate == "aimed × 1"
        assert round_.calibration is not None
        act(round_, np.random.default_rng(1), 20)


def test_infinitely_many_actions_need_a_shortlist():
    with pytest.raises(TypeError, match="a run on shortlists"):
        Controller(tether.Gaussian(0.0), alpha=0.1, store="sqlite://", aim=True)
    with new_run() as run:
        begun(run, 2)
        with pytest.raises(TypeError, match="aim needs policies that list finitely many actions"):
            run.begin(tether.Gaussian(0.0))
        assert run.round.number == 2


def test_words_as_contexts_are_learned_from():
    prompts = np.array(["low", "high"] * 200)

    def harm(contexts, actions):
        return 0.5 * (np.asarray(contexts) == "high") * (actions >= 2)

    rng = np.random.default_rng(0)
    for aim in (AT_ALPHA, AimSettings(loss_model=harm, choose=False)):
        with new_run(aim=aim) as run:
            taken = run.begin().act(prompts, rng)
            run.observe(taken.ids, harm(prompts, taken.actions), rewards=taken.actions)
            run.begin(WORLD.optimized)
            assert last_aim(run).candidate.startswith("aimed")
