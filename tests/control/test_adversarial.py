"""Logs made to break things: underflow, empty supports, plateaus, outliers; none may pass."""

import numpy as np
import pytest

import tether
from tests.control.test_contextual import finite_world
from tests.control.test_stability import leave_one_out
from tether.control.problem import pose
from tether.control.solvers.excess import Excess

HUGE = 1e4


@pytest.mark.parametrize("distance", [600.0, 760.0, 5000.0])
@pytest.mark.parametrize("family", ["clip", "mix"])
def test_a_mixture_far_denser_than_the_safe_policy(distance, family):
    """Harmful rows whose safe density underflows beside their mixture still count."""
    n, far = 100, np.full(100, -distance)
    log = tether.Log(
        np.repeat([0.0, 1.0], n),
        np.append(np.zeros(n), far),
        np.append(far / 2, np.zeros(n)),
        log_mix=np.full(2 * n, np.log(0.5)),
    )
    proposals = tether.Proposals(far[:20], np.zeros(20), log_mix=np.full(20, np.log(0.5)))
    found = tether.calibrate(log, proposals, alpha=0.2, family=family)
    assert found.exists
    assert found.log_beta < np.inf
    assert found.risk == pytest.approx(0.2, rel=1e-5)


def test_supports_that_do_not_meet():
    ones, zeros, never = np.ones(20), np.zeros(20), np.full(20, -np.inf)
    nothing = tether.Log(ones, zeros, never)
    with pytest.raises(ValueError, match="no draw is possible under both policies"):
        tether.calibrate(nothing, tether.Proposals(never, zeros), alpha=0.1)
    for how in ({}, {"test_weight": 2.0}, {"test_weight": "analytic"}):
        found = tether.calibrate(nothing, tether.Proposals(zeros, zeros), alpha=0.1, **how)
        assert not found.exists
    with pytest.raises(ValueError, match="no draw is possible under both policies"):
        tether.calibrate(nothing, alpha=0.1, test_weight=2.0)


def test_an_optimized_policy_mostly_out_of_reach_is_said_so():
    proposals = tether.Proposals(np.append(np.full(99, -np.inf), 0.0), np.zeros(100))
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50))
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert found.beta == np.inf
    assert any("99.0% of the proposals" in warning for warning in found.warnings)


def test_a_context_without_possible_draws_is_an_error():
    n = 40
    optimized = np.zeros(2 * n)
    optimized[:2] = -np.inf
    log = tether.Log(np.ones(n), np.zeros(n), np.zeros(n), context=np.arange(n))
    proposals = tether.Proposals(
        np.zeros(2 * n), optimized, context=np.repeat(np.arange(n), 2), source="safe"
    )
    with pytest.raises(ValueError, match="context number 0 has no draw that both policies"):
        tether.calibrate(log, proposals, alpha=0.1)


def test_underflow_is_not_a_certificate():
    """One harmful row at ratio e^3000: the risk passes alpha near log beta 3.5."""
    n, contexts = 102, np.arange(102)
    ratio = np.append(np.zeros(100), [3000.0, 10_000.0])
    loss = np.append(np.zeros(100), [1.0, 0.0])
    log = tether.Log(loss, np.zeros(n), ratio, context=contexts)
    proposals = tether.Proposals(np.zeros(n), np.zeros(n), context=contexts, source="safe")
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert 3 < found.log_beta < 4
    assert found.risk == pytest.approx(0.2, rel=1e-6)


@pytest.mark.parametrize("family", ["clip", "budgeted_clip(8)"])
def test_one_outlier_does_not_hide_the_crossing(family):
    """An action that is all but impossible in one row must not change the answer."""
    rng = np.random.default_rng(0)
    moved = 0
    for _ in range(6):
        log, *_ = finite_world(rng, rows=200)
        plain = tether.calibrate(log, alpha=0.18, family=family).log_beta
        tables = log.log_optimized_all.copy()
        spare = np.argmin(np.abs(tables[0] - log.log_optimized[0]))
        tables[0, (spare + 1) % 4] = -5000.0
        tables[0] -= np.logaddexp.reduce(tables[0])
        optimized = log.log_optimized.copy()
        optimized[0] = tables[0, spare]
        other = tether.Log(
            log.loss,
            log.log_safe,
            optimized,
            log_safe_all=log.log_safe_all,
            log_optimized_all=tables,
        )
        found = tether.calibrate(other, alpha=0.18, family=family)
        if np.isfinite(plain):
            assert found.log_beta == pytest.approx(plain, abs=0.5)
            moved += 1
    assert moved >= 3


def test_plateaus_cost_nothing():
    """One draw at a ratio of e^−1000 makes a long plateau, which is certified at a stroke."""
    rng = np.random.default_rng(1)
    n = 300
    action = rng.normal(size=n)
    log = tether.Log(rng.random(n) < 0.17, action, action + 0.3 * rng.normal(size=n),
                     context=np.arange(n))  # fmt: skip
    drawn = np.zeros((2 * n, 2))
    drawn[:, 1] = 0.3 * rng.normal(size=2 * n)
    drawn[0, 1] = -1000.0
    proposals = tether.Proposals(
        *drawn.T, context=np.repeat(np.arange(n), 2), source=np.tile(["safe", "optimized"], n)
    )
    problem = pose(log, proposals, tether.Clip(), "empirical")
    calls = []
    original = Excess.between

    def counted(self, *arguments, **more):
        calls.append(arguments)
        return original(self, *arguments, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Excess, "between", counted)
        tether.calibrate(log, proposals, alpha=0.2)
    assert len(calls) < 3000
    assert problem.log_psi(-800.0).min() == pytest.approx(-800, abs=1)


def test_a_draw_that_the_mixture_cannot_make():
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.zeros(50))
    proposals = tether.Proposals(
        np.append(np.zeros(5), -3.0), np.zeros(6), log_mix=np.append(np.zeros(5), -np.inf)
    )
    with pytest.raises(ValueError, match="draw 5 has log_mix −inf and a finite log_safe"):
        tether.calibrate(log, proposals, alpha=0.1)
    shared = tether.Log(
        np.zeros(50), np.zeros(50), np.zeros(50), log_mix=np.zeros(50), safe_share=0.5
    )
    sparse = tether.Proposals(np.zeros(6), np.zeros(6), log_mix=np.append(np.zeros(5), -3.0))
    with pytest.raises(ValueError, match="draw 5 has log_mix -3, below log_safe"):
        tether.calibrate(shared, sparse, alpha=0.1)


@pytest.mark.parametrize("depth", [700.0, 742.0, 744.3, 800.0, 5000.0])
def test_normalizers_far_below_one(depth):
    n = 5
    log = tether.Log(np.zeros(n), np.zeros(n), np.full(n, -depth), context=np.arange(n))
    proposals = tether.Proposals(
        np.zeros(2 * n),
        np.tile([-depth, -depth - 0.6], n),
        context=np.repeat(np.arange(n), 2),
        source="safe",
    )
    problem = pose(log, proposals, tether.Clip(), "empirical")
    exact = -depth + np.log((1 + np.exp(-0.6)) / 2)
    assert problem.log_psi(0.0) == pytest.approx(np.full(n, exact), abs=1e-9)


@pytest.mark.parametrize("harmful", [False, True])
def test_leaving_out_a_row_that_dwarfs_the_rest(harmful):
    loss = np.concatenate(([1.0, 0.0] if harmful else [0.0, 1.0], np.zeros(60)))
    ratio = np.concatenate(([60.0, -1.0 if harmful else 3.0], np.full(60, -1.0)))
    proposals = tether.Proposals([0.0], [-1.0])
    for family in ("mix", "clip"):
        log = tether.Log(loss, np.zeros(62), ratio)
        found = tether.calibrate(log, proposals, alpha=0.1, family=family)
        without = leave_one_out(found)[0]
        again = tether.calibrate(
            tether.Log(loss[1:], np.zeros(61), ratio[1:]), proposals, alpha=0.1, family=family
        )
        assert without == again.log_beta or without == pytest.approx(again.log_beta, abs=1e-6)


@pytest.mark.parametrize("test_weight", ["empirical", "analytic", 1.5])
@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("contexts", [False, True])
def test_enormous_ratios_everywhere(test_weight, family, mixed, contexts):
    if family == "mix" and test_weight == "analytic":
        pytest.skip("mix has no analytic test weight")
    rng = np.random.default_rng(5)
    n = 30
    safe = -np.abs(rng.normal(size=n)) * HUGE
    optimized = safe + rng.choice([-1.0, -0.5, 0.0, 1e-3], size=n) * HUGE
    drawn = rng.choice([-1.0, 0.0, 1e-3, 1.0], size=2 * n) * HUGE
    mix = np.logaddexp(safe, optimized) - np.log(2)
    draw_mix = np.logaddexp(0.0, drawn) - np.log(2)
    log = tether.Log(
        rng.random(n) < 0.1,
        safe,
        optimized,
        context=np.arange(n) if contexts else None,
        log_mix=mix if mixed else None,
        safe_share=0.5 if mixed else None,
    )
    proposals = tether.Proposals(
        np.zeros(2 * n),
        drawn,
        context=np.repeat(np.arange(n), 2) if contexts else None,
        log_mix=draw_mix if mixed else None,
    )
    found = tether.calibrate(log, proposals, alpha=0.3, family=family, test_weight=test_weight)
    assert not found.exists or found.risk <= 0.3 * (1 + 1e-6)
    assert found.stability >= 0
    assert np.isfinite(found.curve(points=5).risk).all()
    assert str(found)


def test_few_draws_that_agree_are_no_contradiction():
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50))
    assert tether.calibrate(log, tether.Proposals([0.0], [0.5], source="safe"), alpha=0.1).exists
    with pytest.raises(ValueError, match="normalizer comes out as inf"):
        tether.calibrate(log, tether.Proposals([0.0], [800.0], source="safe"), alpha=0.1)


def test_a_number_that_the_log_disproves_is_said_so():
    rng = np.random.default_rng(6)
    action = rng.normal(size=500)
    log = tether.Log(action > 1.5, -(action**2) / 2, -((action - 1) ** 2) / 2)
    found = tether.calibrate(log, alpha=0.2, test_weight=1e-6)
    assert any("weigh more than the test point" in warning for warning in found.warnings)


def test_one_sided_draws_in_contexts_are_warned_of():
    n = 40
    log = tether.Log(np.zeros(n), np.zeros(n), np.zeros(n), context=np.arange(n))
    proposals = tether.Proposals(np.zeros(n), np.zeros(n), context=np.arange(n))
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert any("one policy only" in warning for warning in found.warnings)


def test_labels_and_shapes_that_do_not_match():
    log = tether.Log([0.0], [0.0], [0.0], context=[1])
    proposals = tether.Proposals([0.0], [0.0], context=["1"])
    with pytest.raises(TypeError, match=r"context is int64 in the log and <U1 in the proposals"):
        tether.calibrate(log, proposals, alpha=0.2)
    with pytest.raises(ValueError, match="loss is not a table of numbers"):
        tether.Log([[1.0], [1.0, 2.0]], [0.0], [0.0])
    with pytest.raises(ValueError, match=r"loss has 1 masked value"):
        tether.Log(np.ma.masked_array([0.0, 1.0], [False, True]), [0.0, 0.0], [0.0, 0.0])
    with pytest.raises(TypeError, match="loss must be named by strings, got the name 1"):
        tether.Log({1: [0.0]}, [0.0], [0.0])
    with pytest.raises(TypeError, match=r"not a class: write Clip\(\)"):
        tether.calibrate(log, alpha=0.1, family=tether.Clip)


def test_a_wrong_answer_would_not_get_out(monkeypatch):
    """The result is checked against the definition before it is returned."""
    monkeypatch.setattr("tether.control.solvers.clip.first_crossing", lambda terms: np.inf)
    log = tether.Log(np.ones(20), np.zeros(20), np.zeros(20))
    with pytest.raises(RuntimeError, match=r"above alpha = 0\.1: please report"):
        tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.1)


def test_words_stay_words(tmp_path):
    log = tether.Log({"inf": np.zeros(30)}, np.zeros(30), np.zeros(30))
    found = tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.1)
    found.save(tmp_path / "found.json")
    assert tether.Calibration.load(tmp_path / "found.json").constraints[0].name == "inf"
    (tmp_path / "half.json").write_text('{"kind": "calibration"}')
    with pytest.raises(ValueError, match="is not a complete calibration: it lacks log_beta"):
        tether.Calibration.load(tmp_path / "half.json")
    with pytest.raises(ValueError, match="points must be an integer of at least 2, got -1"):
        found.curve(points=-1)
