"""The test weight of a path: the heaviest draw of policies up to the one that is served."""

import numpy as np
import pytest
from benchmarks.trap_path import TrapPath

import tether
from tether.control import PolicyPath
from tether.control.path_weight import largest_weights


def test_draws_count_at_the_level_of_their_policy_and_above():
    table = [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    path = PolicyPath("token_clip", [0.0, 1.0, 2.0], table, drawn_at=[0.0, 1.0, np.inf])
    weight = largest_weights(tether.Proposals([0.0] * 3, [0.0, 1.0, 9.0], policy_path=path))
    assert weight.log_betas.tolist() == [0.0, 1.0, np.inf]
    assert weight.log_weights.tolist() == [0.0, 2.0, 9.0]
    assert [weight.log_weight(None, b) for b in (-np.inf, 0.5, 1.0, np.inf)] == [0.0, 0.0, 2.0, 9.0]


def test_a_beta_without_draws_of_its_own_is_not_chosen():
    rows, draws = np.zeros((200, 3)), np.zeros((2, 3))
    log = tether.Log(
        np.zeros(200),
        np.zeros(200),
        np.zeros(200),
        policy_path=PolicyPath("token_clip", [0.0, 1.0, 2.0], rows),
    )
    for drawn_at, largest in (([0.0, 1.0], 1.0), ([0.0, 2.0], 2.0), ([0.0, 1.5], 0.0)):
        path = PolicyPath("token_clip", [0.0, 1.0, 2.0], draws, drawn_at=drawn_at)
        proposals = tether.Proposals([0.0, 0.0], [0.0, 0.0], policy_path=path)
        found = tether.calibrate(log, proposals, alpha=0.1, family="token_clip")
        assert found.log_beta == largest
        assert set(found.curve().log_beta) <= set(drawn_at)


def test_weights_are_against_the_mixture():
    path = PolicyPath("token_clip", [0.0], [[-2.0], [-1.0]], drawn_at=[0.0, np.inf])
    drawn = tether.Proposals([-3.0, -3.0], [-3.0, -3.0], log_mix=[-2.5, -1.0], policy_path=path)
    assert largest_weights(drawn).log_weights.tolist() == [0.5, -0.5]


def test_few_draws_at_a_beta_are_worth_a_warning():
    path, rng = TrapPath(trap=0.0, betas=3), np.random.default_rng(0)
    log = path.make_log(300, rng)
    for draws, warned in ((4, True), (16, False)):
        found = tether.calibrate(
            log, path.make_proposals(draws, rng), alpha=0.5, family="token_clip"
        )
        assert any("probability of up to 0.2" in each for each in found.warnings) == warned
        terms = found.promise_terms["loss"]
        assert terms.unforeseen == pytest.approx(0.5 / (draws + 1))
        assert 0.5 + terms.stability + terms.unforeseen <= found.promise < 1
        assert "(actions that no draw foresees)" in " ".join(found.summary().split())
        assert tether.Calibration.from_dict(found.to_dict()).promise == found.promise


def test_draws_of_other_policies_alone_are_refused():
    path = PolicyPath("token_clip", [0.0, 1.0], [[0.0, 0.0]], drawn_at=[0.5])
    with pytest.raises(ValueError, match=r"drawn_at.*none of the log betas.*got 0\.5"):
        largest_weights(tether.Proposals([0.0], [0.0], policy_path=path))


def test_a_draw_outside_the_mixture_is_refused():
    path = PolicyPath("token_mix", [0.0], [[-2.0]], drawn_at=[np.inf])
    drawn = tether.Proposals([-np.inf], [-1.0], policy_path=path)
    with pytest.raises(ValueError, match="absolute continuity"):
        largest_weights(drawn)


@pytest.mark.parametrize("draws", [4, 32])
@pytest.mark.parametrize("levels", [1, 10, 200])
@pytest.mark.parametrize("kind", ["equal", "growing", "random"])
def test_an_unforeseen_weight_is_as_rare_as_proven_however_many_levels_there_are(
    draws, levels, kind
):
    """The worst choice among all levels up to which no own draw weighed too much."""
    rng = np.random.default_rng(levels)
    share = {
        "equal": np.full(levels, 1 / (draws + 1)),
        "growing": np.linspace(0.2, 4.0, levels) / draws,
        "random": rng.exponential(1 / draws, size=levels),
    }[kind].clip(0, 1)
    seen = rng.random((20_000, levels)) < 1 - (1 - share) ** draws
    passed = np.where(seen.any(axis=1), seen.argmax(axis=1), levels)
    worst = np.append(0.0, np.maximum.accumulate(share))[passed]
    error = worst.std() / np.sqrt(len(worst))
    assert worst.mean() <= 1 / (draws + 1) + 3 * error
    if levels == 1 and kind == "equal":
        assert worst.mean() > 0.3 / (draws + 1), "within a factor of e of the bound"


def test_a_trap_that_is_seen_half_of_the_time_is_served_as_rarely_as_proven():
    draws = 8
    path = TrapPath(trap=1 / (draws + 1), betas=12, coarse=10**6, safe_risk=0.0, largest_risk=0.0)
    rng, served = np.random.default_rng(0), []
    for _ in range(150):
        log, proposals = path.make_log(100, rng), path.make_proposals(draws, rng)
        found = tether.calibrate(log, proposals, alpha=0.1, family="token_clip")
        served.append(path.risk(found.log_beta))
    error = np.std(served) / np.sqrt(len(served))
    assert 0 < np.mean(served) <= 1 / (draws + 1) + 3 * error


def test_a_promise_that_the_draws_do_not_allow_asks_for_more_draws():
    path, rng = (
        TrapPath(trap=0.0, betas=3, safe_risk=0.0, largest_risk=0.0),
        np.random.default_rng(0),
    )
    log = path.make_log(2_000, rng)
    few, many = (
        tether.calibrate(log, path.make_proposals(draws, rng), promise=0.02, family="token_clip")
        for draws in (32, 400)
    )
    assert not few.exists
    assert "with 32 draws of each policy" in few.warnings[0]
    assert "as many as 50 draws" in few.warnings[0]
    assert many.promise <= 0.02


TRAP_WEIGHT = 1e6


def make_context_log(trapped, loss):
    """Rows of the safe policy; where `trapped`, the policy of the path never acts like that."""
    path = PolicyPath("token_clip", [0.0], np.where(trapped, -np.inf, 0.0)[:, None])
    zeros = np.zeros(len(loss))
    return tether.Log(loss, zeros, zeros, context=trapped.astype(int), policy_path=path)


def make_context_draws(trapped):
    """Draws of the policy of the path, which takes the trap where there is one."""
    log_safe = np.where(trapped, -np.log(TRAP_WEIGHT), 0.0)
    path = PolicyPath("token_clip", [0.0], np.zeros((len(trapped), 1)), drawn_at=0 * log_safe)
    return tether.Proposals(log_safe, 0 * log_safe, context=trapped.astype(int), policy_path=path)


@pytest.mark.parametrize("own", [True, False])
def test_a_rare_context_is_as_rarely_unforeseen_as_stated_whose_contexts_the_draws_have(own):
    """In one of eleven contexts the policy always takes a harmful action that nobody took before.

    Ten rows; 200 draws in ten rows of contexts, which are those of the log or others.
    """
    share, rows, draws = 1 / 11, 10, 200
    rng, unforeseen, stated = np.random.default_rng(1), [], []
    for _ in range(400):
        trapped = rng.random(rows) < share
        asked = trapped if own else rng.random(rows) < share
        log = make_context_log(trapped, np.zeros(rows))
        proposals = make_context_draws(rng.permutation(np.resize(asked, draws if own else rows)))
        found = tether.calibrate(log, proposals, alpha=0.3, family="token_clip")
        unforeseen.append(share if found.exists else 0.0)
        stated.append(found.promise_terms["loss"].unforeseen / 0.7)
    error = np.std(unforeseen) / np.sqrt(len(unforeseen))
    assert np.mean(unforeseen) <= np.mean(stated)
    assert np.mean(unforeseen) > 1 / (draws + 1) + 3 * error, "what as many contexts would allow"


def test_draws_in_contexts_of_the_log_state_what_single_rows_may_add():
    rng, none = np.random.default_rng(0), np.zeros(500, dtype=bool)
    loss = (rng.random(500) < 0.02).astype(float)
    log, proposals = make_context_log(none, loss), make_context_draws(none[:32])
    found = tether.calibrate(log, proposals, alpha=0.1, family="token_clip")
    points, m = 501, 32
    best = min(
        0.9 / m * t / (t - 1) + (t * 0.1 + 0.9) / points for t in np.linspace(1.01, 100, 100_000)
    )
    assert found.promise_terms["loss"].unforeseen == pytest.approx(best, rel=1e-4)
    others = tether.Proposals(
        proposals.log_safe,
        proposals.log_optimized,
        context=np.full(32, 7),
        policy_path=proposals.policy_path,
    )
    found = tether.calibrate(log, others, alpha=0.1, family="token_clip")
    assert found.promise_terms["loss"].unforeseen == pytest.approx(0.9 / 33)
