"""The controller against the core used by hand, and what it refuses."""

import numpy as np
import pytest

import tether
from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import Controller, LossesMissingError, RoundOverError


def controller(world, store="sqlite://", **options):
    terms = {"alpha": 0.2, "watched": 0.9} | options
    return Controller(world.safe(), store=store, **terms)


def by_hand(run, world, number, deployed, family):
    """Beta from the same rows with `make_log` and a mixture of the policies that were deployed."""
    rows = run._rows
    where = np.flatnonzero(rows.calibration)
    served = rows.served[where]
    contexts = rows.contexts if isinstance(rows.contexts, int) else rows.contexts[where]
    contexts = len(where) if isinstance(contexts, int) else contexts
    kinds, counts = np.unique(served, return_counts=True)
    safe, optimized = world.safe(), world.optimized(number)
    logged_by, share = None, None
    if kinds.tolist() != [0]:
        logged_by = tether.Mixture([deployed[k] for k in kinds], counts)
        share = counts[0] / counts.sum()
    args = (safe, optimized, contexts, rows.actions[where], rows.loss[where])
    log = tether.make_log(*args, logged_by=logged_by, safe_share=share)
    rng = np.random.default_rng([run.terms.seed, number, 7919])
    if isinstance(contexts, int):
        asked, draws = 1, 1000
    else:
        _, first = np.unique(contexts, axis=0, return_index=True)
        asked, draws = contexts[np.sort(first)], 16
    proposals = tether.make_proposals(safe, optimized, asked, draws, rng, logged_by=logged_by)
    return tether.calibrate(log, proposals, alpha=run.terms.alpha, family=family)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(4)"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_each_round_is_calibrated_as_by_hand(world, family):
    if world.name == "in contexts" and family != "mix":
        pytest.skip("normalizers are estimated there, with other draws")
    rng = np.random.default_rng(1)
    run = controller(world, family=family)
    deployed = {0: run.safe}
    betas = []
    for number in range(1, 6):
        if number > 1:
            run._refresh()
            expected = by_hand(run, world, number, deployed, family)
        round_, _ = one_round(run, world, number, 300, rng)
        if number == 1:
            assert round_.calibration is None
            assert "no losses" in round_.note
            continue
        assert round_.calibration.log_beta == pytest.approx(expected.log_beta, abs=1e-9)
        assert round_.calibration.risk == pytest.approx(expected.risk, rel=1e-9)
        betas.append(round_.beta)
        deployed[number] = round_.policy
    assert any(0 < beta < np.inf for beta in betas)
    assert set(np.unique(run._rows.served)) > {0}  # so past rounds were in the mixture


def test_normalizers_in_contexts_come_close_to_those_by_hand():
    world, rng = World("in contexts"), np.random.default_rng(2)
    run = controller(world, normalizer_draws=4000, draws=400)
    deployed = {0: run.safe}
    for number in range(1, 4):
        round_, _ = one_round(run, world, number, 400, rng)
        deployed[number] = round_.policy
    run._refresh()
    found = run.begin(world.optimized(4)).calibration
    evidence_free = by_hand(run, world, 4, deployed, "clip")
    assert found.log_beta == pytest.approx(evidence_free.log_beta, abs=0.35)
    assert found.risk == pytest.approx(evidence_free.risk, abs=0.01)


@pytest.mark.parametrize("world", WORLDS[:3], ids=lambda world: world.name)
def test_against_the_last_policy(world):
    rng = np.random.default_rng(3)
    run = controller(world, against="last", alpha=0.3)
    rounds = [one_round(run, world, number, 300, rng)[0] for number in range(1, 5)]
    tethered = [each for each in rounds if each._deployed is not None]
    assert len(tethered) >= 2
    assert tethered[1].policy.safe is tethered[0].policy
    rows = run._rows
    run._refresh()
    where = np.flatnonzero(rows.calibration)
    found = run.begin(world.optimized(5))
    kinds, counts = np.unique(rows.served[where], return_counts=True)
    policies = {0: run.safe} | {each.number: each.policy for each in tethered}
    mixture = tether.Mixture([policies[k] for k in kinds], counts)
    contexts = len(where) if isinstance(rows.contexts, int) else rows.contexts[where]
    reference = rounds[-1].policy
    args = (reference, world.optimized(5), contexts, rows.actions[where], rows.loss[where])
    log = tether.make_log(*args, logged_by=mixture)
    proposals = tether.make_proposals(
        reference, world.optimized(5), 1 if isinstance(contexts, int) else contexts,
        1000, np.random.default_rng([0, 5, 7919]), logged_by=mixture,
    )  # fmt: skip
    expected = tether.calibrate(log, proposals, alpha=0.3)
    assert found.calibration.log_beta == pytest.approx(expected.log_beta, abs=1e-9)


def test_the_optimizer_never_sees_a_calibration_row():
    world, rng = World("tables"), np.random.default_rng(4)
    run = controller(world, calibration_share=0.3)
    for number in range(1, 4):
        one_round(run, world, number, 200, rng)
    rows = run.training_rows()
    split = run._rows.calibration
    assert 0.2 < split.mean() < 0.4
    np.testing.assert_array_equal(rows.ids, np.flatnonzero(~split) + 1)
    np.testing.assert_array_equal(rows.actions, run._rows.actions[~split])
    # nothing else that is public hands out losses, or says which rows are set apart
    public = {name for name in dir(run) if not name.startswith("_")}
    assert public == {
        "begin", "close", "history", "observe", "pending", "resume", "round", "safe", "terms",
        "training_rows", "withdraw",
    }  # fmt: skip
    assert set(vars(rows)) == {
        "ids", "round", "contexts", "actions", "loss", "reward", "log_prob"
    }  # fmt: skip
    assert len(run.pending()) == 0
    record = run.history().rounds[0]
    assert record.calibration_rows == split[:200].sum()  # counted, not shown


def test_a_row_keeps_its_side_for_good(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(5)
    store = tmp_path / "run.db"
    with controller(world, store) as run:
        one_round(run, world, 1, 200, rng)
        first = run.training_rows().ids
    with controller(world, store) as run:
        run.begin(world.optimized(2)).act(100, rng)
        np.testing.assert_array_equal(run.training_rows().ids, first)


def test_training_rows_carry_the_density_of_what_acted():
    world, rng = World("tables"), np.random.default_rng(6)
    run = controller(world)
    rounds = {number: one_round(run, world, number, 150, rng)[0] for number in (1, 2, 3)}
    rows = run.training_rows()
    for number, each in rounds.items():
        mine = rows.round == number
        expected = each.policy.log_prob(rows.contexts[mine], rows.actions[mine])
        np.testing.assert_allclose(rows.log_prob[mine], expected, atol=1e-9)
    assert rows.reward.tolist() == (rows.ids % 7).tolist()


def test_losses_come_late_in_any_order_and_once():
    world, rng = World("marginal"), np.random.default_rng(7)
    run = controller(world)
    first = run.begin()
    taken = first.act(100, rng)
    with pytest.raises(LossesMissingError, match=r"round 1 has 0 of \d+ losses"):
        run.begin(world.optimized(2))
    order = rng.permutation(100)
    first.observe(taken.ids[order[:60]], np.zeros(60))
    assert sorted(run.pending().ids) == sorted(taken.ids[order[60:]])
    with pytest.raises(ValueError, match="reported already"):
        first.observe(taken.ids[order[50:70]], np.zeros(20))
    assert len(run.pending()) == 40  # nothing of the bad report was kept
    with pytest.raises(ValueError, match=r"ids 101, 7000 are unknown \(2 of 3\)"):
        first.observe([taken.ids[order[60]], 101, 7000], np.zeros(3))
    with pytest.raises(ValueError, match="more than once"):
        first.observe([1, 1], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"losses\[1\] is 1.5: expected a loss of at most bound"):
        first.observe(taken.ids[order[60:62]], [0.5, 1.5])
    with pytest.raises(ValueError, match="losses has 3 rows but ids has 2"):
        first.observe(taken.ids[order[60:62]], [0, 0, 0])
    with pytest.raises(TypeError, match="ids must be the whole numbers"):
        first.observe([0.5], [0.0])
    with pytest.raises(ValueError, match=r"rewards\[0\] is nan"):
        first.observe([taken.ids[order[60]]], [0.0], [np.nan])
    second = run.begin()  # the safe policy may serve meanwhile
    second.observe(taken.ids[order[60:]], np.zeros(40))  # late, through another round
    assert len(run.pending()) == 0
    assert run.begin(world.optimized(3)).beta > 0


@pytest.mark.parametrize("missing", ["worst_case", "exclude"])
def test_missing_losses_are_counted_as_asked(missing):
    world, rng = World("marginal"), np.random.default_rng(8)
    run = controller(world, missing=missing, alpha=0.3)
    taken = run.begin().act(400, rng)
    run.observe(taken.ids[:360], world.losses(None, taken.actions[:360]))
    round_ = run.begin(world.optimized(2))
    where = run._rows.calibration
    late = int(where[360:].sum())
    assert f"{late} of {int(where.sum())} calibration rows without a loss" in round_.note
    loss = world.losses(None, taken.actions)
    loss[360:] = 1.0
    kept = where if missing == "worst_case" else where & (np.arange(400) < 360)
    log = tether.make_log(run.safe, world.optimized(2), None, taken.actions[kept], loss[kept])
    draws = tether.make_proposals(
        run.safe, world.optimized(2), 1, 1000, np.random.default_rng([0, 2, 7919])
    )
    expected = tether.calibrate(log, draws, alpha=0.3)
    assert round_.calibration.log_beta == pytest.approx(expected.log_beta, abs=1e-12)
    assert round_.calibration.rows == kept.sum()


def test_waiting_for_enough():
    world, rng = World("marginal"), np.random.default_rng(9)
    run = controller(world, enough=0.9)
    taken = run.begin().act(400, rng)
    calibration = np.zeros(400, bool)
    run._refresh()
    calibration[:] = run._rows.calibration
    late = np.flatnonzero(calibration)[: int(0.05 * calibration.sum())]
    there = np.setdiff1d(np.arange(400), late)
    run.observe(taken.ids[there[:200]], np.zeros(200))
    with pytest.raises(LossesMissingError, match="asks for 90%"):
        run.begin(world.optimized(2))
    run.observe(taken.ids[there[200:]], np.zeros(len(there) - 200))
    round_ = run.begin(world.optimized(2))
    assert f"{len(late)} of" in round_.note
    assert "count as the worst" in round_.note


def test_withdrawn_rows_leave_the_log():
    world, rng = World("marginal"), np.random.default_rng(10)
    run = controller(world)
    taken = run.begin().act(200, rng)
    run.observe(taken.ids[:150], world.losses(None, taken.actions[:150]))
    with pytest.raises(ValueError, match="reason must say"):
        run.withdraw(taken.ids[150:], " ")
    run.withdraw(taken.ids[150:], "the power failed")
    assert len(run.pending()) == 0
    with pytest.raises(ValueError, match="reported already"):
        run.observe(taken.ids[150:], np.zeros(50))
    found = run.begin(world.optimized(2)).calibration
    assert found.rows == run._rows.calibration[:150].sum()
    assert run.history().rounds[0].withdrawn == 50
    assert (run.training_rows().ids <= 150).all()


def test_a_round_is_over_when_the_next_begins():
    world, rng = World("marginal"), np.random.default_rng(11)
    run = controller(world)
    first = run.begin()
    run.begin()
    with pytest.raises(RoundOverError, match="round 1 is over: round 2 has begun"):
        first.act(3, rng)
    assert len(run.pending()) == 0


def test_the_log_of_before_is_recorded():
    world, rng = World("marginal"), np.random.default_rng(12)
    run = controller(world)
    old = world.safe().sample(500, rng)
    taken = run.begin().record(None, old, rng)
    run.observe(taken.ids, world.losses(None, old))
    round_ = run.begin(world.optimized(2))
    assert round_.beta > 0
    with pytest.raises(ValueError, match="round 2 is not a round of the safe policy"):
        round_.record(None, old, rng)


def test_no_beta_serves_the_safe_policy():
    world, rng = World("marginal"), np.random.default_rng(13)
    run = controller(world, alpha=0.02)
    one_round(run, world, 1, 200, rng)
    round_, _ = one_round(run, world, 2, 50, rng)
    assert round_.calibration is not None
    assert not round_.calibration.exists
    assert "no beta passes" in round_.note
    assert round_.policy is run.safe
    assert (run._rows.served == 0).all()
    assert run.history().rounds[1].beta == 0


def test_a_store_is_refused_by_another_policy_or_other_terms(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(14)
    store = tmp_path / "run.db"
    with controller(world, store) as run:
        one_round(run, world, 1, 50, rng)
    with pytest.raises(ValueError, match="the safe policy is not the one that"):
        Controller(tether.Gaussian(0.1), alpha=0.2, watched=0.9, store=store)
    hidden = tether.FunctionPolicy(
        lambda contexts, rng: rng.normal(size=contexts),
        lambda contexts, actions: tether.Gaussian(0.1).log_prob(contexts, actions),
    )
    with pytest.raises(ValueError, match=r"not the 'safe' of this store: it scores"):
        Controller(hidden, alpha=0.2, watched=0.9, store=store)
    with pytest.raises(ValueError, match=r"alpha is 0.3 but .*run.db was made with 0.2"):
        controller(world, store, alpha=0.3)
    with pytest.raises(ValueError, match="missing is 'exclude'"):
        controller(world, store, missing="exclude")
    controller(world, store).close()


def test_a_run_goes_on_after_a_restart(tmp_path):
    world, store = World("marginal"), tmp_path / "run.db"
    whole, halves = [], []
    rng = np.random.default_rng(15)
    with controller(world, tmp_path / "other.db", alpha=0.3) as run:
        whole = [one_round(run, world, number, 200, rng)[0].beta for number in range(1, 6)]
    rng = np.random.default_rng(15)
    with controller(world, store, alpha=0.3) as run:
        halves = [one_round(run, world, number, 200, rng)[0].beta for number in range(1, 4)]
    names = {f"round {number}": world.optimized(number) for number in range(1, 6)}
    with controller(world, store, alpha=0.3) as run:
        with pytest.raises(ValueError, match=r"served by the policy 'round 2'.*Pass policies="):
            run.begin(world.optimized(4))
    with controller(
        world, store, alpha=0.3, policies=names | {"round 3": tether.Gaussian(9.0)}
    ) as run:
        with pytest.raises(ValueError, match=r"policies\['round 3'\] is not the policy of round 3"):
            run.begin(world.optimized(4))
    with controller(world, store, alpha=0.3, policies=names.get) as run:
        current = run.round
        assert (current.number, current.beta) == (3, pytest.approx(halves[-1]))
        halves += [one_round(run, world, number, 200, rng)[0].beta for number in (4, 5)]
    assert halves == pytest.approx(whole, rel=1e-9)


def test_a_policy_that_scores_otherwise_is_found_out(tmp_path):
    world, store, rng = World("marginal"), tmp_path / "run.db", np.random.default_rng(16)

    def hidden(mean):
        policy = tether.Gaussian(mean, 0.9)
        return tether.FunctionPolicy(policy.sample, policy.log_prob)

    with controller(world, store) as run:
        one_round(run, world, 1, 200, rng)
        round_ = run.begin(hidden(0.6), name="bold")
        run.observe(round_.act(50, rng).ids, np.zeros(50))
    with controller(world, store, policies={"bold": hidden(0.7)}) as run:
        with pytest.raises(ValueError, match="the optimized policy is not the 'bold'"):
            run.begin(world.optimized(3))
    with controller(world, store, policies={"bold": hidden(0.6)}) as run:
        assert run.begin(world.optimized(3)).beta > 0


def test_arguments_are_checked():
    safe = tether.Gaussian(0.0)
    for options, words in [
        ({"alpha": 0}, "alpha must be above 0 and below 1, got 0"),
        ({"alpha": 2.0}, "alpha must be above 0 and below 1"),
        ({"alpha": 0.1, "calibration_share": 0}, "calibration_share must be above 0"),
        ({"alpha": 0.1, "missing": "drop"}, "missing must be one of 'wait'"),
        ({"alpha": 0.1, "against": "best"}, "against must be one of 'safe'"),
        ({"alpha": 0.1, "watched": 0.05}, "watched is 0.05, below alpha = 0.1"),
        ({"alpha": 0.1, "enough": 1.5}, "enough must be above 0 and below 1"),
        ({"alpha": 0.1, "family": "clop"}, "family"),
    ]:
        with pytest.raises(ValueError, match=words):
            Controller(safe, store="sqlite://", **options)
    with pytest.raises(ValueError, match="store must be SQLite or PostgreSQL"):
        Controller(safe, alpha=0.1, store="mysql://somewhere/db")
    run = Controller(safe, alpha=0.1, store="sqlite://")
    with pytest.raises(TypeError, match="optimized must be a policy"):
        run.begin(3.0)
    with pytest.raises(TypeError, match=r"rng must be a numpy\.random\.Generator"):
        run.begin().act(3, 0)
    with pytest.raises(ValueError, match="contexts must be at least 1"):
        run.round.act(0, np.random.default_rng(0))
    assert tether.Controller is Controller
    assert repr(run) == "Controller(alpha=0.1, store='sqlite://')"
    assert run.round.number == 1
    assert len(run.training_rows()) == len(run.pending()) == 0


def test_taken_serves_as_the_array_of_its_actions():
    run = Controller(tether.Gaussian(0.0), alpha=0.1, store="sqlite://")
    assert run.round is None
    taken = run.begin().act(4, np.random.default_rng(0))
    np.testing.assert_array_equal(np.asarray(taken), taken.actions)
    assert list(taken) == taken.actions.tolist()
    assert taken[1] == taken.actions[1]
    assert len(taken) == 4
    assert taken.ids.tolist() == [1, 2, 3, 4]
