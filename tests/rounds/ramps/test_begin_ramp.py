"""Rounds of a run that ramps: how they begin, go on, end, and continue after a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tests.rounds.ramps.test_ramp_round import started
from tether.rounds import RoundTakenError, reopen, verify_store


def play(run, round_, rng, harmful, steps, count=100):
    """Act and observe for some steps; whether an action does harm is a function of it."""
    shares = []
    for _ in range(steps):
        taken = round_.act(count, rng)
        run.observe(taken.ids, harmful(taken.actions).astype(float))
        shares.append(run.round.share)
    return shares


def test_a_policy_fifty_nats_away_reaches_all_actions_on_its_own_rows():
    """Clip has no row that says anything about it; a ramp needs none."""
    rng = np.random.default_rng(0)
    safe, far = tether.Gaussian(0.0), tether.Gaussian(10.0)
    assert far.log_prob(1, np.array([10.0])) - safe.log_prob(1, np.array([10.0])) >= 50
    shares = {}
    for family in ("clip", "ramp"):
        with tether.Controller(safe, alpha=0.1, store="sqlite://", family=family) as run:
            taken = run.begin().act(500, rng)
            run.observe(taken.ids, (taken.actions > 2).astype(float))
            round_ = run.begin(far)
            if family == "clip":
                shares[family] = (round_.act(200, rng).actions > 5).mean()
                continue
            for _ in range(4):
                taken = round_.act(200, rng)
                run.observe(taken.ids, ((taken.actions > 2) & (taken.actions < 5)).astype(float))
                run.advance()
            shares[family] = (round_.act(200, rng).actions > 5).mean()
    assert shares == {"clip": 0, "ramp": 1}


def test_a_harmful_policy_stays_at_the_first_share():
    run, rng = started(actions_per_step=100)
    round_ = run.begin(AlwaysTakes(1))
    shares = play(run, round_, rng, lambda actions: actions == 1, 6)
    assert max(shares) == round_.share < 0.2
    assert run.history().alarms == ()  # within its share it may


def test_a_harmful_policy_with_a_large_share_raises_an_alarm_and_resuming_begins_anew():
    run, rng = started(actions_per_step=100)
    round_ = run.begin(AlwaysTakes(1))
    first = round_.share
    assert play(run, round_, rng, lambda actions: actions > 1, 3)[-1] == 1
    play(run, round_, rng, lambda actions: actions == 1, 1)
    alarm = run.history().alarm
    assert (alarm.monitor, alarm.round) == ("risk", 5)
    assert set(round_.act(50, rng).actions) == {0}
    run.resume("mended", actor="ann")
    taken = round_.act(100, rng)
    assert set(taken.actions) == {0, 1}
    present = run.round
    assert (present.number, present.share) == (6, first)
    assert (present._stored.step.ramp, present._stored.first) == (6, 2)


def test_begin_while_an_alarm_stands_leaves_everything_to_the_safe_policy_until_resumed():
    run, rng = started()
    run.halt("a test")
    round_ = run.begin(AlwaysTakes(1))
    assert (round_.share, round_.note) == (
        0,
        "alarm 1 stood when the round began: the safe policy serves",
    )
    assert run.advance().share == 0
    assert set(round_.act(50, rng).actions) == {0}
    run.resume("a test")
    assert set(round_.act(300, rng).actions) == {0, 1}
    assert run.round.number == 4


def test_a_second_halt_right_after_a_resumption_leaves_everything_to_the_safe_policy():
    run, rng = started()
    round_ = run.begin(AlwaysTakes(1))
    for act in (run.halt, run.resume, run.halt):
        act("a test")
    assert set(round_.act(50, rng).actions) == {0}
    assert run.round.number == 2
    run.resume("a test")
    assert set(round_.act(300, rng).actions) == {0, 1}
    assert run.round.number == 3


def test_a_policy_that_reached_all_actions_answers_beside_later_ones():
    run, rng = started(actions_per_step=100, against="last")
    play(run, run.begin(AlwaysTakes(1)), rng, lambda actions: actions > 1, 4)
    round_ = run.begin(AlwaysTakes(2))
    assert round_.reference == 3
    assert set(round_.act(100, rng).actions) == {1, 2}
    assert set(run.history().rounds[-1].policy_losses) == set()
    assert "beside the policy of round 3" in run.history().rounds[-1].why
    run.halt("a test")
    assert set(round_.act(50, rng).actions) == {0}


def test_a_reference_that_turns_harmful_raises_an_alarm(tmp_path):
    run, rng = started(actions_per_step=100, against="last", store=tmp_path / "run.db")
    play(run, run.begin(AlwaysTakes(1)), rng, lambda actions: actions > 1, 4)
    play(run, run.begin(AlwaysTakes(2)), rng, lambda actions: actions == 1, 1)
    alarm = run.history().alarm
    assert (alarm.monitor, alarm.round) == ("risk", 6)
    run.close()
    assert verify_store(tmp_path / "run.db").ok


def test_silence_is_counted_across_steps(tmp_path):
    run, rng = started(actions_per_step=100, max_silence=250, store=tmp_path / "run.db")
    round_ = run.begin(AlwaysTakes(1))
    for _ in range(3):
        assert 1 in round_.act(100, rng).actions
    assert set(round_.act(100, rng).actions) == {0}
    assert run.history().alarm.monitor == "silence"
    run.close()
    assert verify_store(tmp_path / "run.db").ok


def test_with_several_losses_the_share_is_the_smallest():
    alphas = {"harm": 0.2, "delay": 5.0}
    given = {"alpha": alphas, "bound": {"harm": 1.0, "delay": 60.0}}
    with tether.Controller(AlwaysTakes(0), store="sqlite://", family="ramp", **given) as run:
        rng = np.random.default_rng(0)
        taken = run.begin().act(400, rng)
        run.observe(taken.ids, {"harm": np.zeros(400), "delay": np.full(400, 1.0)})
        round_ = run.begin(AlwaysTakes(1))
        found = round_.ramp_share
        assert found.binding == "delay"
        assert found.share == min(each.share for each in found.guardrails.values())
        taken = round_.act(400, rng)
        run.observe(taken.ids, {"harm": np.zeros(400)})
        assert run.advance().share == round_.share  # the delays are not known yet
        run.observe(taken.ids, {"delay": np.full(400, 1.0)})
        taken = round_.act(400, rng)
        run.observe(taken.ids, {"harm": np.zeros(400), "delay": np.zeros(400)})
        assert run.advance().share == 1


def test_a_run_continues_after_a_restart(tmp_path):
    run, rng = started(store=tmp_path / "run.db", actions_per_step=100, safe=tether.Gaussian(0.0))
    assert run.settings.missing == "worst_case"
    round_ = run.begin(tether.Gaussian(10.0))
    round_.act(np.zeros((100, 1)), rng)
    run.close()
    with reopen(tmp_path / "run.db") as run:
        assert run.settings.actions_per_step == 100
        present = run.round
        assert (present.number, present.share) == (2, round_.share)
        taken = present.act(np.zeros((300, 1)), rng)
        assert run.round.number == 3
        assert (taken.actions > 5).any()
    assert verify_store(tmp_path / "run.db").ok


def test_a_policy_that_is_not_stored_is_asked_for_by_the_name_of_its_first_step(tmp_path):
    given = {"store": tmp_path / "run.db", "alpha": 0.2, "family": "ramp"}
    run, rng = started(**given)
    run.begin(lambda contexts, rng: np.full(contexts, 1))
    run.advance()
    run.close()
    with tether.Controller(AlwaysTakes(0), **given) as run:
        with pytest.raises(ValueError, match="'round 2', which is not available"):
            _ = run.round
    with tether.Controller(AlwaysTakes(0), **given, policies={"round 2": AlwaysTakes(1)}) as run:
        assert set(run.round.act(300, rng).actions) == {0, 1}


def test_a_policy_that_was_changed_is_refused_at_the_next_step():
    run, _ = started()
    policy = AlwaysTakes(1)
    run.begin(policy)
    policy.fingerprint = "trained further"
    with pytest.raises(ValueError, match="is not the policy of round 2"):
        run.advance()
    assert run.round.number == 2


def test_two_processes_cannot_begin_the_same_round(tmp_path, monkeypatch):
    run, rng = started(store=tmp_path / "run.db")
    other = tether.Controller(AlwaysTakes(0), store=tmp_path / "run.db", alpha=0.2, family="ramp")
    save = tether.rounds.ramps.begin_ramp.save_policy_content

    def saved_while_another_begins(policy):
        monkeypatch.undo()
        other.begin(AlwaysTakes(2))
        return save(policy)

    name = "tether.rounds.ramps.begin_ramp.save_policy_content"
    monkeypatch.setattr(name, saved_while_another_begins)
    with pytest.raises(RoundTakenError, match="round 2 was begun by another process"):
        run.begin(AlwaysTakes(1))
    assert {0, 2} >= set(other.round.act(300, rng).actions)
    with pytest.raises(ValueError, match="'round 2', which is not available"):
        _ = run.round
    other.close()


def test_threads_act_in_the_steps_of_one_ramp(tmp_path):
    run, _ = started(store=tmp_path / "run.db", actions_per_step=60)
    round_ = run.begin(AlwaysTakes(1))

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(10):
            taken = round_.act(10, rng)
            run.observe(taken.ids, np.zeros(10))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    records = run.history().rounds[1:]
    assert sum(record.rows for record in records) == 400
    assert all(60 <= record.rows <= 90 for record in records[:-1])
    run.close()
    assert verify_store(tmp_path / "run.db").ok


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"family": "clip", "actions_per_step": 5}, "actions_per_step is for family='ramp'"),
        ({"actions_per_step": 0}, "actions_per_step must be an integer of at least 1, got 0"),
        ({"missing": "wait"}, "missing must be 'worst_case' for family='ramp', got 'wait'"),
        ({"missing": "exclude"}, "missing must be 'worst_case' for family='ramp'"),
        ({"test_weight": "analytic"}, "test_weight does not exist for family='ramp'"),
        ({"ratio_error": 2.0}, "ratio_error does not exist for family='ramp'"),
        ({"blend": 0.5}, "blend does not exist for family='ramp'"),
        ({"normalizer_draws": 5}, "normalizer_draws does not exist for family='ramp'"),
        ({"min_observed_share": 0.5}, "min_observed_share does not exist for family='ramp'"),
        ({"draws": 5}, "draws does not exist for family='ramp', got 5"),
        ({"against": "first"}, "against must be"),
    ],
)
def test_arguments_that_a_ramp_does_not_have_are_named(given, message):
    arguments = {"alpha": 0.1, "store": "sqlite://", "family": "ramp"} | given
    with pytest.raises(ValueError, match=message):
        tether.Controller(tether.Gaussian(0.0), **arguments)


def test_what_is_refused_says_why():
    with pytest.raises(ValueError, match="with a confidence a ramp promises alpha itself"):
        started(alpha=None, promise=0.1, confidence=0.9)
    with pytest.raises(TypeError, match="safe must be a policy or a sampler in a ramp"):
        started(safe=tether.Shortlist(tether.Gaussian(0.0), size=4))
    run, _ = started(actions_per_step=10)
    with pytest.raises(
        TypeError, match=r"optimized must be an object with sample\(contexts, rng\)"
    ):
        run.begin(3)
    run.begin(AlwaysTakes(1), name="one")
    with pytest.raises(ValueError, match="name 'one' belongs to the policy of round 2"):
        run.begin(AlwaysTakes(2), name="one")
    with pytest.raises(ValueError, match="end by themselves, after 10 actions"):
        run.advance()
    with pytest.raises(ValueError, match="ramps its policies, and weighs no rows of lost ones"):
        run.retire(2, "lost")
    run, _ = started()
    with pytest.raises(ValueError, match="advance needs a policy that is ramped"):
        run.advance()
    with tether.Controller(tether.Gaussian(0.0), alpha=0.1, store="sqlite://") as other:
        with pytest.raises(ValueError, match="advance is for family='ramp', and this run has"):
            other.advance()
