"""Logs with extreme numbers: underflow, plateaus, outliers, enormous ratios; none may pass."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import finite_world, leave_one_out
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


def test_underflow_is_not_a_certificate():
    """One harmful row at ratio e^3000: the risk passes alpha near log beta 3.5."""
    n, contexts = 102, np.arange(102)
    ratio = np.append(np.zeros(100), [3000.0, 10_000.0])
    loss = np.append(np.zeros(100), [1.0, 0.0])
    log = tether.Log(loss, np.zeros(n), ratio, context=contexts)
    drawn, label = np.zeros(2 * n), np.repeat(contexts, 2)
    source = np.tile(["safe", "optimized"], n)
    proposals = tether.Proposals(drawn, drawn, context=label, source=source)
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


def count_intervals(*arguments, **how):
    """A calibration, and how many intervals of beta its search examined."""
    calls = []
    original = Excess.between

    def counted(self, *ends, **more):
        calls.append(ends)
        return original(self, *ends, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Excess, "between", counted)
        return tether.calibrate(*arguments, **how), len(calls)


def test_plateaus_are_certified_at_once():
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
    found, examined = count_intervals(log, proposals, alpha=0.2)
    assert found.exists
    assert examined < 3000
    tries, fallback = found._problem.densities.log_averages(-800.0)
    assert (tries[:n] == 0).all()  # one proposal
    assert fallback[0] == 0  # which is rejected in the first context, and accepted in all others
    assert (fallback[1:n] == -np.inf).all()


def test_plateaus_of_exact_normalizers_are_certified_at_once():
    """The same with a table, in which one action is all but impossible."""
    rng = np.random.default_rng(1)
    n = 300
    safe = np.log(np.full((n, 3), 1 / 3))
    optimized = safe + 0.3 * rng.normal(size=(n, 3))
    optimized[0, 2] = -1000.0
    optimized -= np.logaddexp.reduce(optimized, axis=1, keepdims=True)
    log = tether.Log(
        rng.random(n) < 0.17,
        safe[:, 0],
        optimized[:, 0],
        log_safe_all=safe,
        log_optimized_all=optimized,
    )
    found, examined = count_intervals(log, alpha=0.2)
    assert found.exists
    assert examined < 3000
    log_psi = found._problem.densities.log_psi(-800.0)
    assert log_psi == pytest.approx(-800 + np.log(np.where(np.arange(n) == 0, 2 / 3, 1.0)))


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
@pytest.mark.parametrize(
    "family", ["clip", "mix", pytest.param("budgeted_clip(3)", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("contexts", [False, True])
def test_enormous_ratios_everywhere(test_weight, family, mixed, contexts):
    if family == "mix" and test_weight == "analytic":
        pytest.skip("mix has no analytic test weight")
    rng = np.random.default_rng(5)
    n = 30
    safe = -np.abs(rng.normal(size=n)) * HUGE
    optimized = safe + rng.choice([-1.0, -0.5, 0.0, 1e-3], size=n) * HUGE
    each = 6  # draws per context, half of each policy
    drawn = rng.choice([-1.0, 0.0, 1e-3, 1.0], size=each * n) * HUGE
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
        np.zeros(each * n),
        drawn,
        context=np.repeat(np.arange(n), each) if contexts else None,
        log_mix=draw_mix if mixed else None,
        source=np.tile(["safe", "optimized"], each * n // 2),
    )
    found = tether.calibrate(log, proposals, alpha=0.3, family=family, test_weight=test_weight)
    assert not found.exists or found.risk <= 0.3 * (1 + 1e-6)
    assert found.stability >= 0
    assert np.isfinite(found.curve(points=5).risk).all()
    assert str(found)


@pytest.mark.parametrize("family", ["clip", "mix"])
@pytest.mark.parametrize("scale", [10_000.0, 3_000.0, 700.0])
def test_enormous_ratios_neither_overflow_nor_warn(family, scale):
    rng = np.random.default_rng(2)
    for _ in range(40):
        rows = 50
        safe = -np.abs(rng.normal(size=rows)) * scale
        ratio = rng.choice([-1.0, -0.5, 0.0, 0.01, 1.0], size=rows) * scale
        loss = rng.random(rows) < 0.1
        draws = rng.choice([-1.0, 0.0, 0.02, 1.0], size=9) * scale
        log = tether.Log(loss, safe, safe + ratio)
        proposals = tether.Proposals(np.zeros(9) - scale, draws - scale)
        found = tether.calibrate(log, proposals, alpha=0.2, family=family)
        assert found.risk <= 0.2 + 1e-9 or not found.exists
        assert found.stability >= 0
        assert found.max_weight <= 1
        assert np.isfinite(found.curve().risk).all()
        assert str(found)


def test_wide_ratios_in_contexts():
    rng = np.random.default_rng(15)
    rows = 30
    action = rng.normal(size=rows)
    log = tether.Log(action > 2, action, action * 4000, context=np.arange(rows))
    label = np.repeat(np.arange(rows), 4)
    drawn = rng.normal(size=len(label))
    source = np.tile(["safe", "optimized"], 2 * rows)
    proposals = tether.Proposals(drawn, drawn * 4000, context=label, source=source)
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert 0 <= found.risk <= 1
    assert found.stability >= 0
