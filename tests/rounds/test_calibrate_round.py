"""A round is calibrated as by hand with the core, and on the rows that it should be."""

from itertools import pairwise

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import controller, monitored_run
from tests.rounds.worlds import WORLDS, World, one_round
from tether.rounds import Controller, LossesMissingError, calibrate_round

FINE_STEP = 1 / 128 + 1e-9
"""How far log betas from sums in another order may be apart: a step of the grid."""


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
    args = (safe, optimized, contexts, rows.actions[where], rows.losses[where, 0])
    log = tether.make_log(*args, logged_by=logged_by, safe_share=share)
    rng = np.random.default_rng([run.settings.seed, number, 7919])
    if isinstance(contexts, int):
        asked, draws = 1, 1000
    else:
        _, first, rows_of = np.unique(contexts, axis=0, return_index=True, return_counts=True)
        asked = contexts[np.sort(first)]
        draws = 16 * min(int(np.ceil(256 / len(first))), rows_of.max())
    proposals = tether.make_proposals(safe, optimized, asked, draws, rng, logged_by=logged_by)
    how = {"alpha": run.settings.limits["loss"].alpha, "family": family}
    return lambda ratio_error: tether.calibrate(log, proposals, ratio_error=ratio_error, **how)


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(4)"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_each_round_is_calibrated_as_by_hand(world, family, monkeypatch):
    passed = []

    def noted(*arguments, **options):
        passed.append(options)
        return tether.calibrate(*arguments, **options)

    monkeypatch.setattr(calibrate_round, "calibrate", noted)
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
        assert 1 <= round_.calibration.binding.ratio_error < 1.02
        expected = expected(passed[-1]["ratio_error"])
        assert round_.calibration.log_beta == pytest.approx(expected.log_beta, abs=FINE_STEP)
        if round_.calibration.log_beta == expected.log_beta:
            risk = expected.binding.risk
            assert round_.calibration.binding.risk == pytest.approx(risk, rel=1e-9)
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
    evidence_free = by_hand(run, world, 4, deployed, "clip")(found.binding.ratio_error)
    assert found.log_beta == pytest.approx(evidence_free.log_beta, abs=0.35)
    assert found.binding.risk == pytest.approx(evidence_free.binding.risk, abs=0.01)


@pytest.mark.parametrize("world", WORLDS[:3], ids=lambda world: world.name)
def test_against_the_last_policy(world):
    rng = np.random.default_rng(3)
    run = controller(world, against="last", alpha=0.35)
    rounds = [one_round(run, world, number, 300, rng)[0] for number in range(1, 5)]
    tethered = [each for each in rounds if each._deployed is not None]
    assert len(tethered) >= 2
    followed = [pair for pair in pairwise(rounds) if set(pair) <= set(tethered)]
    assert followed
    assert all(two.policy.safe is one.policy for one, two in followed)
    rows = run._rows
    run._refresh()
    where = np.flatnonzero(rows.calibration)
    found = run.begin(world.optimized(5))
    kinds, counts = np.unique(rows.served[where], return_counts=True)
    policies = {0: run.safe} | {each.number: each.policy for each in tethered}
    mixture = tether.Mixture([policies[k] for k in kinds], counts)
    contexts = len(where) if isinstance(rows.contexts, int) else rows.contexts[where]
    reference = rounds[-1].policy
    args = (reference, world.optimized(5), contexts, rows.actions[where], rows.losses[where, 0])
    log = tether.make_log(*args, logged_by=mixture)
    proposals = tether.make_proposals(
        reference, world.optimized(5), 1 if isinstance(contexts, int) else contexts,
        1000, np.random.default_rng([0, 5, 7919]), logged_by=mixture,
    )  # fmt: skip
    wrong = found.calibration.binding.ratio_error
    expected = tether.calibrate(log, proposals, alpha=0.35, ratio_error=wrong)
    assert found.calibration.log_beta == pytest.approx(expected.log_beta, abs=FINE_STEP)


def test_the_mixture_counts_rows_by_the_policy_that_served():
    run, round_, rng = monitored_run()
    taken = round_.act(100, rng)
    run.observe(taken.ids, np.ones(100))
    more = round_.act(60, rng)
    run.observe(more.ids, np.zeros(60))
    run.resume("a drill")
    run._refresh()
    rows = run._rows
    where = rows.calibration
    found = run.begin(tether.Gaussian(0.1)).calibration
    counts = [int((where & (rows.served == k)).sum()) for k in (0, 2)]
    assert counts[0] > where[:400].sum()  # rows after the alarm are the safe policy's
    mixture = tether.Mixture([run.safe, round_.policy], counts)
    log = tether.make_log(
        run.safe, tether.Gaussian(0.1), None, rows.actions[where], rows.losses[where, 0],
        logged_by=mixture,
    )  # fmt: skip
    draws = tether.make_proposals(
        run.safe,
        tether.Gaussian(0.1),
        1,
        1000,
        np.random.default_rng([0, 3, 7919]),
        logged_by=mixture,
    )
    by_hand = tether.calibrate(log, draws, alpha=0.1).log_beta
    assert found.log_beta == pytest.approx(by_hand, abs=FINE_STEP)


@pytest.mark.parametrize("missing", ["worst_case", "exclude"])
def test_missing_losses_are_the_worst_or_excluded(missing):
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
    assert round_.calibration.log_beta == pytest.approx(expected.log_beta, abs=FINE_STEP)
    assert round_.calibration.rows == kept.sum()


def test_missing_losses_are_waited_for():
    world, rng = World("marginal"), np.random.default_rng(9)
    run = controller(world, min_observed_share=0.9)
    taken = run.begin().act(400, rng)
    calibration = np.zeros(400, bool)
    run._refresh()
    calibration[:] = run._rows.calibration
    late = np.flatnonzero(calibration)[: int(0.05 * calibration.sum())]
    there = np.setdiff1d(np.arange(400), late)
    run.observe(taken.ids[there[:200]], np.zeros(200))
    with pytest.raises(LossesMissingError, match="requires 90%"):
        run.begin(world.optimized(2))
    run.observe(taken.ids[there[200:]], np.zeros(len(there) - 200))
    round_ = run.begin(world.optimized(2))
    assert f"{len(late)} of" in round_.note
    assert "count as the worst" in round_.note


def test_the_safe_policy_serves_if_no_beta_passes():
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


def test_actions_that_the_safe_policy_never_takes_are_refused():
    safe = tether.Categorical.from_probabilities([0.5, 0.5, 0.0], actions=["a", "b", "c"])
    bold = tether.Categorical.from_probabilities([0.2, 0.3, 0.5], actions=["a", "b", "c"])
    rng = np.random.default_rng(4)
    for contexts in (200, np.zeros((200, 1))):
        run = Controller(safe, alpha=0.3, store="sqlite://")
        run.observe(run.begin().act(contexts, rng).ids, np.zeros(200))
        with pytest.raises(ValueError, match="takes actions that the safe policy never takes"):
            run.begin(bold)
        assert run.round.number == 1
