"""A controller through its public class: rounds of every kind, on both databases."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import tether
from tests.runs.worlds import WORLDS, Line, play, started
from tether.runs import Controller, Run
from tether.runs.errors import (
    ChangedPolicyError,
    FinalLossError,
    LossesMissingError,
    RoundOverError,
    RoundTakenError,
)

RULES = {
    "alpha": {},
    "promise": {"promise": ...},
    "confidence": {"confidence": 0.9},
    "mix": {"family": "mix"},
    "budgeted": {"family": "budgeted_clip(8)"},
    "last": {"against": "last"},
}


def make(world, store="sqlite://", **settings):
    if settings.get("promise") is ...:
        settings["promise"] = world.alpha
    elif "promise" not in settings:
        settings.setdefault("alpha", world.alpha)
    return Controller(world.safe, store, **settings)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", WORLDS)
def test_rounds_in_every_kind_of_context(name, rule):
    world = WORLDS[name]
    rng = np.random.default_rng(1)
    with make(world, **RULES[rule]) as run:
        rounds = play(run, world, rng)
        assert rounds[0].beta == 0
        assert any(each.beta > 0 for each in rounds[1:])
        assert all(each.calibration.log_beta == each._unit.level for each in rounds[1:])
        rows = run.training_rows()
        assert 0 < len(rows) < 400 * len(rounds)
        assert len(run.pending()) == 0
        assert run.verify() == []
        units = run.history().units
        assert [unit.rows["old"] + unit.rows["new"] for unit in units] == [400] * len(rounds)
        assert units[0].reward.count == 400
        assert all(set(unit.promises) == {"loss"} for unit in units[1:])


def test_both_databases_give_the_same_run_and_a_restarted_one_goes_on(store_url):
    world, rng = replace(WORLDS["arrays"], alpha=0.15), np.random.default_rng(5)
    with make(world) as memory, make(world, store_url) as stored:
        first = play(memory, world, np.random.default_rng(2), rows=200)
        second = play(stored, world, np.random.default_rng(2), rows=200)
        assert [each.beta for each in first] == [each.beta for each in second]
        assert stored.verify() == []
        fifth = memory.begin(world.news[-1])
    safe, *news = (  # the same ones, which list their actions in another order
        tether.Categorical(lambda x, same=each: same.log_prob_all(x)[:, ::-1], [2, 1, 0])
        for each in (world.safe, *world.news)
    )
    given = {f"policy {place}": each for place, each in enumerate(news, 1)}
    with make(replace(world, safe=safe), store_url, policies=given) as run:
        assert (run.round.number, run.round.beta) == (4, second[-1].beta)
        assert run.round.calibration.log_beta == second[-1].calibration.log_beta
        assert run.begin(news[-1]).beta == pytest.approx(fifth.beta)
        taken = run.round.act(world.contexts(rng, 50), rng)
        assert (set(taken.served), len(run.pending())) == ({5}, 50)
        run.observe(taken, np.zeros(50))
    with Run.open(store_url) as run:
        assert run.verify() == []
        assert run.history().kind == "controller"


@pytest.mark.parametrize("name", ["nothing", "arrays", "lines"])
def test_betas_are_those_of_calibrate_on_the_same_rows(name):
    """The first calibrated round has only rows of the safe policy: a log that anybody can make."""
    world = WORLDS[name]
    rng = np.random.default_rng(3)
    with make(world, calibration_share=1.0) as run:
        taken = run.begin().act(world.contexts(rng, 600), rng)
        losses = world.loss(taken.actions, rng)
        run.observe(taken, losses)
        found = run.begin(world.news[-1]).calibration
    policies = world.safe, world.news[-1]
    log = tether.make_log(*policies, taken.contexts, taken.actions, losses)
    contexts, draws = (None, 1000) if isinstance(taken.contexts, int) else (taken.contexts, 16)
    stream = np.random.default_rng([0, 2, 7919])  # the seed of the run and the round
    proposals = tether.make_proposals(*policies, contexts, draws, stream)
    alone = tether.calibrate(log, proposals, alpha=world.alpha)
    assert found.family == alone.family
    assert found.log_beta == alone.log_beta
    assert found.promise == pytest.approx(alone.promise)


def test_the_second_round_weighs_rows_by_the_mixture():
    """Computed by hand: the density of round 2 with its own normalizing constant."""
    world = WORLDS["arrays"]
    rng = np.random.default_rng(4)
    with make(world, alpha=0.15, calibration_share=1.0) as run:
        rows = []
        for policy in (None, world.news[0]):
            round_ = run.begin(policy)
            taken = round_.act(world.contexts(rng, 400), rng)
            losses = world.loss(taken.actions, rng)
            run.observe(taken, losses)
            rows.append((taken.contexts, taken.actions, losses))
        beta = run.begin(world.news[1]).beta
        second = tether.Tethered(world.safe, world.news[0], round_.beta)
    contexts, actions, losses = (np.concatenate(each) for each in zip(*rows, strict=True))
    log = tether.make_log(
        *(world.safe, world.news[1], contexts, actions, losses),
        logged_by=tether.Mixture([world.safe, second], [400, 400]),
        safe_share=0.5,
    )
    assert beta == pytest.approx(tether.calibrate(log, alpha=0.15).beta)
    unweighted = tether.make_log(world.safe, world.news[1], contexts, actions, losses)
    assert beta > 1.5 * tether.calibrate(unweighted, alpha=0.15).beta


def test_a_policy_that_cannot_be_stored_is_passed_again(tmp_path):
    world = WORLDS["lines"]
    rng = np.random.default_rng(6)
    store = tmp_path / "run.db"
    with make(world, store) as run:
        play(run, world, rng)
    with make(world, store) as run, pytest.raises(ValueError, match=r"policy 2.*policies"):
        run.round.act(world.contexts(rng, 3), rng)
    given = {"policy 1": Line(0.5), "policy 2": Line(7.0)}
    with make(world, store, policies=given) as run, pytest.raises(ChangedPolicyError):
        run.round.act(world.contexts(rng, 3), rng)
    given["policy 2"] = Line(1.0)
    with make(world, store, policies=given.get) as run:
        assert len(run.round.act(world.contexts(rng, 3), rng)) == 3
    with make(world, store) as run:
        run.retire(2, "its file is lost")
        run.retire(3, "its file is lost")
        assert set(run.round.act(world.contexts(rng, 3), rng).served) == {0}
        run.withdraw(run.pending(), "a test")
        assert run.begin(Line(0.4)).calibration.rows < 400
        assert run.verify() == []


def test_a_policy_that_is_trained_further_is_refused():
    world, model = WORLDS["lines"], Line(0.5)
    run, _, rng = started(name="lines")
    with run:
        round_ = run.begin(model)
        round_.act(world.contexts(rng, 5), rng)
        model.slope = 1.5
        with pytest.raises(ChangedPolicyError, match="trained further"):
            round_.act(world.contexts(rng, 5), rng)


def test_a_policy_that_does_not_list_its_actions_may_follow_one_that_does():
    world, rng = WORLDS["arrays"], np.random.default_rng(7)
    listed, other = world.news[:2]
    with make(world, family="mix") as run:
        for policy in (None, listed, tether.FunctionPolicy(other.sample, other.log_prob), listed):
            taken = run.begin(policy).act(world.contexts(rng, 200), rng)
            run.observe(taken, world.loss(taken.actions, rng))
            assert policy is None or run.round.beta > 0
        assert run.verify() == []


def test_another_safe_policy_is_refused(tmp_path):
    make(WORLDS["nothing"], tmp_path / "run.db").close()
    with pytest.raises(ChangedPolicyError, match="safe"):
        Controller(tether.Gaussian(0.1), tmp_path / "run.db", alpha=0.12)
    with pytest.raises(ValueError, match="seed"):
        Controller(tether.Gaussian(0.0), tmp_path / "run.db", alpha=0.12, seed=3)


def test_a_policy_that_is_unavailable_leaves_the_call_to_the_safe_one():
    class Flaky(Line):
        broken = False

        def sample(self, contexts, rng):
            if self.broken:
                raise ConnectionError("no route")
            return super().sample(contexts, rng)

    world, model = WORLDS["lines"], Flaky(0.5)
    run, _, rng = started(name="lines", family="mix")
    with run:
        round_ = run.begin(model)
        assert round_.act(world.contexts(rng, 4), rng).failure == ""
        model.broken = True
        taken = round_.act(world.contexts(rng, 4), rng)
        assert "no route" in taken.failure
        assert set(taken.served) == {0}
        assert run.verify() == []


# ---- losses -------------------------------------------------------------------------------------


def test_several_losses_arrive_one_by_one():
    rng = np.random.default_rng(9)
    given = {"alpha": {"harm": 0.12, "cost": 2.0}, "bound": {"harm": 1.0, "cost": 10.0}}
    with Controller(tether.Gaussian(0.0), "sqlite://", **given) as run:
        taken = run.begin().act(400, rng)
        assert run.observe(taken, {"harm": taken.actions > 1.5}) == 400
        assert len(run.pending()) == 400
        with pytest.raises(LossesMissingError):
            run.begin(tether.Gaussian(0.3))
        costs = np.clip(np.abs(taken.actions), 0, 10)
        costs[:10] = np.nan
        assert run.observe(taken, {"cost": costs, "harm": taken.actions > 1.5}) == 390
        assert run.pending().ids.tolist() == list(range(10))
        run.observe(taken.ids[:10], {"cost": np.zeros(10)}, rewards=np.ones(10))
        found = run.begin(tether.Gaussian(0.3)).calibration
        assert set(found.losses) == {"harm", "cost"}
        assert found.log_beta == min(each.log_beta for each in found.losses.values())
        assert run.verify() == []


def test_a_loss_is_final_and_all_or_nothing():
    rng = np.random.default_rng(10)
    with make(WORLDS["nothing"]) as run:
        taken = run.begin().act(10, rng)
        assert run.observe(taken, np.zeros(10)) == 10
        assert run.observe(taken, np.zeros(10)) == 0
        more = run.round.act(5, rng)
        with pytest.raises(FinalLossError):
            run.observe(np.append(taken.ids[:1], more.ids), np.ones(6))
        assert len(run.pending()) == 5
        run.withdraw(more.ids[:2], "never carried out")
        with pytest.raises(ValueError, match="withdrawn"):
            run.observe(more.ids[:2], np.zeros(2))
        with pytest.raises(ValueError, match="cannot be withdrawn"):
            run.withdraw(taken.ids[:1], "too late")
        assert len(run.pending()) == 3
        assert run.verify() == []


@pytest.mark.parametrize("missing", ["wait", "worst_case", "exclude"])
def test_losses_that_are_missing(missing):
    rng = np.random.default_rng(11)
    with make(WORLDS["nothing"], missing=missing, calibration_share=1.0) as run:
        taken = run.begin().act(400, rng)
        run.observe(taken.ids[:380], taken.actions[:380] > 1.5)
        if missing == "wait":
            with pytest.raises(LossesMissingError, match="20 of 400"):
                run.begin(tether.Gaussian(0.3))
            assert run.begin().note
            return
        round_ = run.begin(tether.Gaussian(0.3))
        assert round_.calibration.rows == (400 if missing == "worst_case" else 380)
        assert "20 of 400" in round_.note
        run.observe(taken.ids[380:], np.zeros(20))
        assert run.verify() == []  # later losses change nothing of what was decided


def test_rows_that_arrive_while_a_round_begins_change_nothing():
    rng = np.random.default_rng(12)
    with make(WORLDS["nothing"]) as run:
        first = run.begin()
        taken = first.act(300, rng)
        run.observe(taken, taken.actions > 1.5)

        class Slow(tether.Gaussian):
            """Scores while others act and observe."""

            def log_prob(self, contexts, actions):
                more = first.act(20, rng)
                run.observe(more, np.ones(20))
                return super().log_prob(contexts, actions)

        round_ = run.begin(Slow(0.3))
        assert round_.calibration.rows == int((~np.isin(taken.ids, run.training_rows().ids)).sum())
        assert run.history().units[0].rows["old"] > 300
        assert run.verify() == []


# ---- keys, rounds that are over, rows from elsewhere --------------------------------------------


@pytest.mark.parametrize("name", ["nothing", "arrays", "shortlists", "texts"])
def test_keys_return_what_was_stored(name):
    world = WORLDS[name]
    rng = np.random.default_rng(13)
    with make(world) as run:
        round_ = run.begin()
        contexts = world.contexts(rng, 6)
        names = [f"request {k}" for k in range(6)]
        first = round_.act(contexts, rng, keys=names)
        again = round_.act(contexts, rng, keys=names)
        assert again.ids.tolist() == first.ids.tolist()
        assert again.actions.tolist() == first.actions.tolist()
        longer = world.contexts(rng, 2)
        both = 8 if name == "nothing" else np.concatenate([contexts, longer])
        mixed = round_.act(both, rng, keys=[*names, "new 1", "new 2"])
        assert mixed.ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
        if name != "nothing":
            with pytest.raises(ValueError, match="another context"):
                round_.act(world.contexts(rng, 6)[::-1], rng, keys=names)
        assert run.verify() == []


def test_a_round_that_is_over_and_one_that_is_taken(tmp_path):
    world = WORLDS["nothing"]
    rng = np.random.default_rng(14)
    with make(world, tmp_path / "run.db") as one, make(world, tmp_path / "run.db") as other:
        first = one.begin()
        taken = other.round.act(200, rng)
        one.observe(taken, taken.actions > 1.5)

        class Overtaken(tether.Gaussian):
            """While it is scored, the other process begins the round."""

            def log_prob(self, contexts, actions):
                if len(other.history().units) == 1:
                    other.begin()
                return super().log_prob(contexts, actions)

        with pytest.raises(RoundTakenError):
            one.begin(Overtaken(0.3))
        with pytest.raises(RoundOverError):
            first.act(1, rng)
        assert one.begin(tether.Gaussian(0.3)).number == 3
        assert one.verify() == []


def test_rows_of_the_safe_policy_from_elsewhere():
    rng = np.random.default_rng(15)
    for name in ("nothing", "arrays", "shortlists"):
        world = WORLDS[name]
        with make(world) as run:
            run.begin()
            contexts = world.contexts(rng, 300)
            safe = getattr(world.safe, "safe", world.safe)
            actions = safe.sample(300 if name == "shortlists" else contexts, rng)
            taken = run.record(contexts, actions, rng)
            assert taken.actions.tolist() == actions.tolist()
            run.observe(taken, world.loss(actions, rng))
            if run.begin(world.news[0]).beta:
                with pytest.raises(ValueError, match="safe policy"):
                    run.record(contexts, actions, rng)
            assert run.verify() == []


# ---- looks --------------------------------------------------------------------------------------


def test_calibrations_on_the_same_rows_are_counted():
    rng = np.random.default_rng(16)
    with make(WORLDS["nothing"], confidence=0.9) as run:
        taken = run.begin().act(600, rng)
        run.observe(taken, taken.actions > 1.5)
        rounds = [run.begin(tether.Gaussian(0.1 * k)) for k in (2, 3, 4)]
        assert [each.decision["looks"] for each in rounds] == [1, 2, 3]
        confidences = [each.calibration.confidence for each in rounds]
        assert confidences == pytest.approx([0.9, 1 - 0.1 / 6, 1 - 0.1 / 12])
        assert "tether.choose" not in rounds[0].note
        assert all("tether.choose" in each.note for each in rounds[1:])
        assert any("tether.choose" in each for each in rounds[2].calibration.warnings)
        assert run.begin(tether.Gaussian(0.4)).decision["looks"] == 3  # the same policy again
        taken = run.round.act(600, rng)
        run.observe(taken, taken.actions > 1.5)
        assert run.begin(tether.Gaussian(0.5)).decision["looks"] == 1
        assert run.verify() == []


def test_trying_again_draws_no_other_number():
    rng, policy = np.random.default_rng(17), tether.Gaussian(1.0, 0.8)
    with make(WORLDS["nothing"], promise=0.1, family="mix", calibration_share=1) as run:
        run.observe(taken := run.begin().act(300, rng), taken.actions > 1.5)
        rounds = [run.begin(policy) for _ in range(6)]
        assert len({(each.beta, each.decision["looks"]) for each in rounds}) == 1
        run.observe(run.round.act(1, rng), [0.0])
        assert (run.begin(policy).decision["looks"], run.verify()) == (2, [])


# ---- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "named", "settings"),
    [
        (TypeError, "alpha", {"alpha": 0.1, "promise": 0.1}),
        (ValueError, "alpha", {"alpha": 1.5}),
        (ValueError, "bound", {"alpha": {"a": 0.1}, "bound": {"b": 1.0}}),
        (ValueError, "family", {"alpha": 0.1, "family": "clop"}),
        (ValueError, "confidence", {"alpha": 0.1, "family": "ramp", "confidence": 0.9}),
        (ValueError, "calibration_share", {"alpha": 0.1, "calibration_share": 0.0}),
        (ValueError, "max_silence", {"alpha": 0.1, "max_silence": 0}),
        (ValueError, "fallback", {"alpha": 0.1, "fallback": "old"}),
    ],
)
def test_wrong_arguments(error, named, settings):
    with pytest.raises(error, match=named):
        Controller(tether.Gaussian(0.0), "sqlite://", **settings)


def test_wrong_calls():
    rng = np.random.default_rng(17)
    with make(WORLDS["nothing"], max_silence=timedelta(days=1)) as run:
        assert run.round is None
        round_ = run.begin()
        taken = round_.act(3, rng)
        for error, named, call in [
            (TypeError, "rng", lambda: round_.act(3, 7)),
            (TypeError, "contexts", lambda: round_.act(np.zeros((3, 2)), rng)),
            (ValueError, "keys", lambda: round_.act(2, rng, keys=["a", "a"])),
            (ValueError, "keys", lambda: round_.act(1, rng, keys=["a\0"])),
            (ValueError, "ids", lambda: run.observe([7], [0.0])),
            (ValueError, "ids", lambda: run.observe([0, 0], [0.0, 0.0])),
            (ValueError, "losses", lambda: run.observe(taken, [0.0, 0.0, 2.0])),
            (ValueError, "reason", lambda: run.withdraw(taken, " ")),
            (ValueError, "number", lambda: run.retire(1, "lost")),
            (ValueError, "advance", run.advance),
            (ValueError, "name", lambda: run.begin(tether.Gaussian(0.1), name="")),
            (TypeError, "policy", lambda: run.begin("better")),
        ]:
            with pytest.raises(error, match=named):
                call()
        assert len(run.pending()) == 3
        assert round_.beta == 0.0
        assert math.isinf(run.history().units[0].level)


def test_a_cached_state_is_the_state(tmp_path, monkeypatch):
    """Also where a beta is infinite, which JSON does not know."""
    monkeypatch.setattr("tether.runs.event_log.EVENTS_PER_CACHE", 5)
    rng = np.random.default_rng(2)
    with make(WORLDS["nothing"], tmp_path / "run.db") as run:
        taken = run.begin().act(400, rng)
        run.observe(taken, np.zeros(400))
        assert run.begin(tether.Gaussian(0.1)).beta == np.inf
        for _ in range(8):
            run.round.act(3, rng)
        expected = [each.decision for each in run.history().units]
    with make(WORLDS["nothing"], tmp_path / "run.db") as run:
        assert run._log.state.cached > 0
        assert [each.decision for each in run.history().units] == expected
        assert run.verify() == []
