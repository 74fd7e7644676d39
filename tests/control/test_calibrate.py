"""From a log to beta: invariances, several losses, ties, and bad arguments."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tether
from tests.control.example_logs import log_and_proposals, random_columns


def columns():
    return st.builds(
        lambda seed, rows, draws: random_columns(
            np.random.default_rng(seed), rows, draws, spread=1.5, mix=True
        ),
        st.integers(0, 2**32 - 1),
        st.integers(2, 40),
        st.integers(1, 15),
    )


def same(left, right):
    return left == right or left == pytest.approx(right, rel=1e-6, abs=1e-6)


@given(columns(), st.sampled_from(["clip", "mix"]), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_order_shift_and_splitting_change_nothing(made, family, seed):
    log, proposals = log_and_proposals(made, True)
    beta = tether.calibrate(log, proposals, alpha=0.4, family=family).log_beta
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(log))
    rows = [made[name][order] for name in ("loss", "safe", "optimized")]
    shuffled = tether.Log(*rows, log_mix=made["mix"][order])
    assert same(tether.calibrate(shuffled, proposals, alpha=0.4, family=family).log_beta, beta)

    shift = rng.normal() * 100
    moved = {k: v + shift for k, v in made.items() if k != "loss"} | {"loss": made["loss"]}
    assert same(
        tether.calibrate(*log_and_proposals(moved, True), alpha=0.4, family=family).log_beta, beta
    )

    # One row becomes two of half its weight: each counts as if the mixture were twice as dense.
    split = {k: np.append(made[k], made[k][0]) for k in ("loss", "safe", "optimized", "mix")}
    split["mix"][[0, -1]] += np.log(2)
    halved = tether.Log(split["loss"], split["safe"], split["optimized"], log_mix=split["mix"])
    assert same(tether.calibrate(halved, proposals, alpha=0.4, family=family).log_beta, beta)


@given(columns(), st.sampled_from(["clip", "mix"]))
@settings(max_examples=60, deadline=None)
def test_more_tolerance_never_means_less_beta(made, family):
    betas = [
        tether.calibrate(*log_and_proposals(made, True), alpha=alpha, family=family).log_beta
        for alpha in (0.1, 0.2, 0.3, 0.5, 0.8)
    ]
    assert all(a <= b + 1e-9 for a, b in pairwise(betas))


@given(columns(), st.sampled_from(["clip", "mix"]))
@settings(max_examples=40, deadline=None)
def test_several_constraints_allow_what_the_strictest_does(made, family):
    other = 2 * made["loss"][::-1]
    log = tether.Log(
        {"a": made["loss"], "b": other}, made["safe"], made["optimized"], log_mix=made["mix"]
    )
    _, proposals = log_and_proposals(made, True)
    both = tether.calibrate(
        log, proposals, alpha={"a": 0.4, "b": 0.9}, bound={"a": 1.0, "b": 2.0}, family=family
    )
    alone = [
        tether.calibrate(
            tether.Log(loss, made["safe"], made["optimized"], log_mix=made["mix"]),
            proposals,
            alpha=alpha,
            bound=bound,
            family=family,
        ).log_beta
        for loss, alpha, bound in ((made["loss"], 0.4, 1.0), (other, 0.9, 2.0))
    ]
    assert both.log_beta == min(alone)
    assert list(both.log_beta_by_constraint.values()) == alone
    assert both.binding.name == ("a" if alone[0] <= alone[1] else "b")
    if both.exists:
        assert all(both.risks[c.name] <= c.alpha * (1 + 1e-9) for c in both.constraints)


def test_ties_with_alpha_pass():
    """(10·0.23 + 1)/11 is 0.3, though floats make it 0.30000000000000004."""
    log = tether.Log(np.full(10, 0.23), np.zeros(10), np.zeros(10))
    proposals = tether.Proposals(np.zeros(3), np.zeros(3))
    assert tether.calibrate(log, proposals, alpha=0.3).beta == np.inf
    assert not tether.calibrate(log, proposals, alpha=0.2999999).exists


def test_gaussian_world_finds_the_population_beta():
    """π₀ = N(0, 1), π_t = N(1, 0.8), loss 1{a > 1.5}, α = 0.1: the population's beta is 0.6251."""
    rng = np.random.default_rng(1)
    safe, drawn = rng.normal(size=2_000_000), 1 + 0.8 * rng.normal(size=1000)

    def scores(action):
        return -(action**2) / 2, -(((action - 1) / 0.8) ** 2) / 2 - np.log(0.8)

    log = tether.Log(safe > 1.5, *scores(safe))
    found = tether.calibrate(log, tether.Proposals(*scores(drawn)), alpha=0.1)
    assert found.beta == pytest.approx(0.6251, abs=0.01)


def test_all_losses_equal():
    ones, zeros = np.ones(20), np.zeros(20)
    proposals = tether.Proposals([0.0], [0.0])
    assert tether.calibrate(tether.Log(zeros, zeros, zeros), proposals, alpha=0.1).beta == np.inf
    found = tether.calibrate(tether.Log(ones, zeros, zeros), proposals, alpha=0.1)
    assert (found.beta, found.exists) == (0.0, False)
    assert found.risk == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"alpha": 0.0}, ValueError, r"alpha must be above 0 and below 1, got 0.0"),
        ({"alpha": 1.0}, ValueError, r"alpha must be above 0 and below 1, got 1.0"),
        ({"alpha": np.nan}, ValueError, r"alpha must be above 0 and below 1, got nan"),
        ({"alpha": "0.1"}, TypeError, r"alpha must be a number, got '0.1'"),
        ({"alpha": True}, TypeError, r"alpha must be a number, got True"),
        ({"alpha": 0.1, "bound": -1}, ValueError, r"bound must be above 0"),
        ({"alpha": 0.1, "bound": 0.7}, ValueError, r"loss\[1\] is 1.0: expected .* bound = 0.7"),
        ({"alpha": {"harm": 0.1}}, ValueError, r"alpha has the losses \['harm'\] but the log"),
        ({"alpha": 0.1, "test_weight": "max"}, ValueError, r"test_weight must be one of"),
        ({"alpha": 0.1, "test_weight": -1.0}, ValueError, r"test_weight must be above 0"),
        (
            {"alpha": 0.1, "family": "mix"},
            ValueError,
            r"family 'mix' needs the largest",
        ),
        ({"alpha": 0.1, "family": "budgeted_clip"}, ValueError, r"needs proposals"),
        (
            {"alpha": 0.1, "family": "mix", "test_weight": "analytic"},
            ValueError,
            r"'analytic' does not exist for family 'mix'",
        ),
    ],
)
def test_bad_calibrations(how, error, message):
    log = tether.Log([0.0, 1.0, 0.5], [-1.0, -2.0, -1.5], [-1.1, -0.3, -2.0])
    with pytest.raises(error, match=message):
        tether.calibrate(log, **how)


def test_the_result_is_checked_against_the_definition(monkeypatch):
    """The result is checked against the definition before it is returned."""
    monkeypatch.setattr("tether.control.solvers.clip.first_crossing", lambda terms: np.inf)
    log = tether.Log(np.ones(20), np.zeros(20), np.zeros(20))
    with pytest.raises(RuntimeError, match=r"above alpha = 0\.1: this is a bug"):
        tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.1)


def test_import_is_light():
    """Nothing heavy comes along: not even scipy, until it is used."""
    import subprocess
    import sys

    code = "import tether, sys; print([m for m in ('scipy', 'typer', 'rich', 'pandas', 'torch') "
    code += "if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_bounds_and_ratio_errors_stay_within_the_range_of_floats():
    """No sum over rows overflows, and no beta passes at any ratio error beyond the largest."""
    actions = np.random.default_rng(0).normal(size=60)
    log = tether.Log((actions > 1.2).astype(float), -(actions**2) / 2, -((actions - 0.3) ** 2) / 2)
    with pytest.raises(ValueError, match=r"bound must be above 0 and below 1e\+200, got 1e\+308"):
        tether.calibrate(log, alpha=0.3, bound=1e308)
    assert str(tether.calibrate(log, alpha=0.3, bound=1e199))
    for factor in (1e10, 1e308, np.inf):
        assert not tether.calibrate(log, alpha=0.3, ratio_error=factor).exists
