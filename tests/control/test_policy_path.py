"""Paths of policies: the tethered policy at a fixed sequence of betas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tether.control import Mix, PolicyPath, find_family
from tether.control.policy_path import PathDensities, PathFamily

BETAS = np.linspace(-3.0, 3.0, 25)


def scores(rows, rng, shift=0.0):
    """Scores of two Gaussian policies at draws of the first one, moved by a shift."""
    actions = rng.normal(size=rows) + shift
    return actions, -(actions**2) / 2, -((actions - 1) ** 2) / 2


def mix_table(log_safe, log_optimized, log_betas=BETAS):
    return np.array([Mix().log_density(log_safe, log_optimized, b, 0.0) for b in log_betas]).T


def mix_as_path(rows, rng, log_mix=None):
    """A log and proposals whose path is the family mix at some betas.

    All draws count at every beta: they are those of the first one, and copies at the others.
    """
    actions, safe, optimized = scores(rows, rng)
    log = tether.Log(
        actions > 1.5,
        safe,
        optimized,
        policy_path=PolicyPath("token_mix", BETAS, mix_table(safe, optimized)),
    )
    copied = np.append(np.arange(200), np.arange(len(BETAS)))
    safe, optimized = (each[copied] for each in scores(200, rng, shift=1.0)[1:])
    drawn_at = np.concatenate((np.full(200, BETAS[0]), BETAS[1:], [np.inf]))
    path = PolicyPath("token_mix", BETAS, mix_table(safe, optimized), drawn_at=drawn_at)
    return log, tether.Proposals(safe, optimized, policy_path=path)


@pytest.mark.parametrize("alpha", [0.07, 0.1, 0.15, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_a_path_of_mixes_gives_the_beta_of_mix_rounded_down(alpha, seed):
    log, proposals = mix_as_path(300, np.random.default_rng(seed))
    found = tether.calibrate(log, proposals, alpha=alpha, family="token_mix")
    exact = tether.calibrate(log, proposals, alpha=alpha, family="mix")
    below = BETAS[exact.log_beta >= BETAS]
    if exact.log_beta == np.inf:
        assert found.log_beta == np.inf
    else:
        assert found.log_beta == (below[-1] if len(below) else -np.inf)
    if np.isfinite(found.log_beta):
        at_mix = exact._problem.risk(exact.binding, found.log_beta)
        assert found.risk == pytest.approx(at_mix, rel=1e-12)
        assert found.acceptance == pytest.approx(1)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(2, 30),
    betas=st.integers(1, 6),
    alpha=st.floats(0.05, 0.9),
)
def test_the_largest_beta_and_its_leave_one_out_follow_the_definition(seed, rows, betas, alpha):
    rng = np.random.default_rng(seed)
    log_betas = np.sort(rng.normal(size=betas) + np.arange(betas) * 1e-6)
    loss, safe, optimized = rng.integers(2, size=rows), *rng.normal(size=(2, rows)) - 3
    table = rng.normal(size=(rows, betas)) - 3
    log = tether.Log(loss, safe, optimized, policy_path=PolicyPath("token_clip", log_betas, table))
    found = tether.calibrate(log, alpha=alpha, family="token_clip", test_weight=0.7)
    everything = np.column_stack((table, optimized)) - safe[:, None]

    def largest(kept):
        best = -np.inf
        for k, log_beta in enumerate([*log_betas, np.inf]):
            weight = np.exp(everything[kept, k])
            excess = ((loss[kept] - alpha) * weight).sum() + (1 - alpha) * 0.7
            if excess > 1e-9:
                break
            best = log_beta
        return best

    assert found.log_beta == largest(np.arange(rows))
    without = found._problem.exact_solver.leave_one_out(found._problem, found.binding)
    assert np.array_equal(without, [largest(np.delete(np.arange(rows), i)) for i in range(rows)])
    moved = [
        np.exp((safe if b == -np.inf else (np.column_stack((table, optimized)))[:, k]) - safe)[i]
        for i, b in enumerate(without)
        for k in [int(np.searchsorted(log_betas, b))]
    ]
    if found.exists:
        k = int(np.searchsorted(log_betas, found.log_beta))
        own = np.exp(everything[:, k])
        stability = np.abs(moved - own).sum() / (own.sum() + 0.7)
        assert found.stability == pytest.approx(stability, rel=1e-9)


def test_between_its_betas_a_path_is_the_policy_at_the_smaller_one():
    safe, optimized = np.array([-1.0, -2.0]), np.array([-3.0, -0.5])
    path = PolicyPath("token_clip", [0.0, 1.0], [[-1.5, -2.0], [-1.2, -0.8]])
    at = lambda log_beta: PathDensities(path).log_density(  # noqa: E731
        safe, optimized, np.arange(2), log_beta
    )
    assert np.array_equal(at(-np.inf), safe)
    assert np.array_equal(at(-0.1), safe)
    assert np.array_equal(at(0.0), [-1.5, -1.2])
    assert np.array_equal(at(0.9), [-1.5, -1.2])
    assert np.array_equal(at(5.0), [-2.0, -0.8])
    assert np.array_equal(at(np.inf), optimized)


def test_a_calibration_along_a_path_is_saved_and_loaded(tmp_path):
    log, proposals = mix_as_path(300, np.random.default_rng(0))
    found = tether.calibrate(log, proposals, alpha=0.1, family="token_mix")
    found.save(tmp_path / "found.json")
    loaded = tether.Calibration.load(tmp_path / "found.json")
    assert (loaded.log_beta, loaded.family, loaded.promise) == (
        found.log_beta,
        "token_mix",
        found.promise,
    )
    assert np.array_equal(loaded.curve().log_beta, BETAS)
    assert found.provenance.differences(log, proposals) == []
    other = tether.Log(
        log.loss["loss"],
        log.log_safe,
        log.log_optimized,
        policy_path=PolicyPath("token_mix", BETAS, log.policy_path.log_density - 0.1),
    )
    assert "log: policy_path.log_density" in found.provenance.differences(other, proposals)


def test_a_path_can_be_certified_with_a_confidence():
    log, proposals = mix_as_path(2_000, np.random.default_rng(1))
    found = tether.calibrate(log, proposals, alpha=0.15, confidence=0.9, family="token_mix")
    assert found.log_beta in [*BETAS, np.inf]
    assert found.promise == 0.15


def test_what_does_not_fit_together_is_refused():
    log, proposals = mix_as_path(20, np.random.default_rng(0))
    plain = tether.Log(log.loss["loss"], log.log_safe, log.log_optimized)
    with pytest.raises(ValueError, match="needs a policy_path in the log"):
        tether.calibrate(plain, alpha=0.1, family="token_mix")
    with pytest.raises(ValueError, match="the policy_path of the log is 'token_mix'"):
        tether.calibrate(log, proposals, alpha=0.1, family="token_clip")
    with pytest.raises(ValueError, match="needs proposals along its path"):
        tether.calibrate(log, alpha=0.1, family="token_mix")
    with pytest.raises(ValueError, match="no bound"):
        tether.calibrate(log, proposals, alpha=0.1, family="token_mix", test_weight="analytic")
    with pytest.raises(ValueError, match="needs drawn_at"):
        tether.Proposals(log.log_safe, log.log_optimized, policy_path=log.policy_path)
    drawn = PolicyPath(
        "token_mix", BETAS + 1, proposals.policy_path.log_density, drawn_at=np.zeros(225)
    )
    moved = tether.Proposals(proposals.log_safe, proposals.log_optimized, policy_path=drawn)
    with pytest.raises(ValueError, match="other betas"):
        tether.calibrate(log, moved, alpha=0.1, family="token_mix")


def test_a_path_of_some_rows_has_their_densities():
    path = PolicyPath("token_clip", [0.0, 1.0], [[-1.0, -2.0], [-3.0, -4.0]])
    assert path.rows(np.array([False, True])).log_density.tolist() == [[-3.0, -4.0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("clip", [0.0], [[0.0]]), "'token_clip' or 'token_mix'"),
        (("token_clip", [0.0, np.inf], [[0.0, 0.0]]), "finite"),
        (("token_clip", [0.0, 0.0], [[0.0, 0.0]]), "must increase"),
        (("token_clip", [0.0], [[0.0, 1.0]]), "1 columns"),
        (("token_clip", [0.0], [[np.nan]]), "NaN"),
    ],
)
def test_bad_paths_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PolicyPath(*arguments)


def test_the_family_of_a_path_has_no_density_of_whole_answers():
    assert find_family("token_clip(0.01)") == PathFamily("token_clip(0.01)")
    with pytest.raises(TypeError, match=r"tether\.llm\.TokenTether"):
        PathFamily("token_clip").log_density(np.zeros(2), np.zeros(2), 0.0, np.zeros(2))
