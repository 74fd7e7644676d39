"""Plans, against the definitions and against simulated calibrations."""

import math

import numpy as np
import pytest

import tether


def test_rows_needed_is_the_first_size_that_can_pass():
    """With losses at the safe risk exactly, one row fewer fails and this many pass."""
    for alpha, bound, risk in ((0.1, 1.0, 0.05), (0.3, 2.0, 0.1), (0.05, 1.0, 0.0)):
        made = tether.plan(alpha=alpha, safe_risk=risk, bound=bound)
        proposals = tether.Proposals([0.0], [0.0])

        def passes(rows, alpha=alpha, bound=bound, risk=risk, proposals=proposals):
            log = tether.Log(np.full(rows, risk), np.zeros(rows), np.zeros(rows))
            return tether.calibrate(log, proposals, alpha=alpha, bound=bound).exists

        assert passes(made.rows_needed)
        assert not passes(made.rows_needed - 1)


def test_rows_likely_pass_as_often_as_promised():
    made = tether.plan(alpha=0.1, safe_risk=0.05, pass_probability=0.8)
    rng = np.random.default_rng(0)
    harmful = rng.binomial(made.rows_likely, 0.05, size=20_000)
    often = (harmful * 0.9 - (made.rows_likely - harmful) * 0.1 + 0.9 <= 1e-9).mean()
    assert 0.79 < often < 0.92


@pytest.mark.parametrize(("optimized_risk", "spread"), [(0.3, 1.0), (0.15, 0.5), (0.4, 1.5)])
def test_beta_is_what_the_model_gives_on_average(optimized_risk, spread):
    """Simulate the model: normal log ratios, shifted for harmful and for harmless actions."""
    alpha, safe_risk, rows = 0.12, 0.06, 4000
    made = tether.plan(
        alpha=alpha,
        safe_risk=safe_risk,
        optimized_risk=optimized_risk,
        log_ratio_spread=spread,
        rows=rows,
    )
    rng = np.random.default_rng(1)
    shift = np.log([(1 - optimized_risk) / (1 - safe_risk), optimized_risk / safe_risk])
    betas = []
    for _ in range(200):
        harmful = (rng.random(rows) < safe_risk).astype(int)
        ratio = shift[harmful] + spread * rng.normal(size=rows) - spread**2 / 2
        drawn = (rng.random(rows) < optimized_risk).astype(int)
        top = shift[drawn] + spread * rng.normal(size=rows) + spread**2 / 2
        log = tether.Log(harmful, np.zeros(rows), ratio)
        proposals = tether.Proposals(np.zeros(rows), top)
        betas.append(tether.calibrate(log, proposals, alpha=alpha).log_beta)
    assert math.log(made.betas[0][1]) == pytest.approx(np.median(betas), abs=0.1)


def test_normal_approximation_continues_the_exact_count():
    exact = tether.plan(alpha=0.1, safe_risk=0.0976).rows_likely
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tether.planning.rows_needed.MAX_EXACT_ROWS", 0)
        assert tether.plan(alpha=0.1, safe_risk=0.0976).rows_likely == pytest.approx(
            exact, rel=0.02
        )


def test_a_promise_needs_more_rows_than_a_beta_that_passes():
    """And with them something passes, with room for the other terms beside alpha."""
    world = {"safe_risk": 0.06, "optimized_risk": 0.3}
    named, plain = tether.plan(promise=0.12, **world), tether.plan(alpha=0.12, **world)
    assert (named.alpha, named.promise) == (None, 0.12)
    assert (plain.alpha, plain.promise) == (0.12, None)
    assert plain.rows_needed < named.rows_needed < named.rows_likely
    assert all(stated <= 0.12 for _, stated in named.promises)
    assert all(beta > 0 for _, beta in named.betas)
    assert dict(plain.promises)[plain.rows_likely] > 0.2  # what alpha alone would state
    too_few = tether.plan(promise=0.12, rows=int(0.9 * named.rows_needed), **world)
    assert too_few.betas[0][1] == 0
    assert too_few.promises[0][1] == 1
    assert "rows to state this promise" in str(named)


def test_no_number_of_rows_keeps_a_promise_below_the_safe_risk():
    for promise in (0.05, 0.06):
        never = tether.plan(promise=promise, safe_risk=0.06)
        assert not never.possible
        assert never.rows_needed == never.rows_likely == math.inf
        assert "the safe policy's risk is not below the promise" in str(never)
    assert tether.plan(promise=0.061, safe_risk=0.06).possible


def test_exactly_one_of_alpha_and_promise():
    for given in ({}, {"alpha": 0.1, "promise": 0.1}):
        with pytest.raises(ValueError, match=r"exactly one of alpha, .* and promise"):
            tether.plan(safe_risk=0.05, **given)
    with pytest.raises(ValueError, match="promise must be above 0 and below 1, got 2"):
        tether.plan(safe_risk=0.05, promise=2)


def test_harmless_policies_go_all_the_way():
    assert tether.plan(alpha=0.1, safe_risk=0.0, rows=10_000).betas == ((10_000, math.inf),)
    assert (
        tether.plan(alpha=0.1, safe_risk=0.05, optimized_risk=0.0, rows=100_000).betas[0][1]
        == math.inf
    )


def test_hopeless_and_very_long_plans():
    never = tether.plan(alpha=0.1, safe_risk=0.1)
    assert never.rows_needed == never.rows_likely == math.inf
    assert never.betas == ()
    assert "no number of rows is enough" in str(never)
    long = tether.plan(alpha=0.1, safe_risk=0.09995)
    assert long.rows_needed == 18_000
    assert 50_000_000 < long.rows_likely < 100_000_000
    words = " ".join(str(tether.plan(alpha=0.1, safe_risk=0.05)).split())
    assert "69 rows pass with probability 0.9" in words
    assert tether.plan(alpha=0.1, safe_risk=0.05).to_dict()["rows_needed"] == 18
    assert tether.plan(alpha=0.1, safe_risk=0.05, rows=5).betas == ((5, 0.0),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"bound": 0.0}, "bound must be above 0"),
        ({"safe_risk": -0.1}, "safe_risk must be at least 0 and at most 1, got -0.1"),
        ({"safe_risk": 1.2}, "safe_risk must be at least 0 and at most 1, got 1.2"),
        ({"optimized_risk": 3}, "optimized_risk must be at least 0"),
        ({"log_ratio_spread": 0}, "log_ratio_spread must be above 0"),
        ({"pass_probability": 1.0}, "pass_probability must be above 0 and below 1"),
        ({"rows": 0}, "rows must be an integer of at least 1, got 0"),
    ],
)
def test_bad_plans(changes, message):
    with pytest.raises(ValueError, match=message):
        tether.plan(**{"alpha": 0.1, "safe_risk": 0.05, **changes})


def test_a_plan_takes_its_numbers_by_name_only():
    with pytest.raises(TypeError, match="positional"):
        tether.plan(0.1, 0.05)


def test_the_summary_is_what_printing_shows():
    made = tether.plan(alpha=0.1, safe_risk=0.05)
    assert made.summary() == str(made)
    assert made.bound == 1.0


@pytest.mark.parametrize(
    "settings",
    [{"bound": 1e308}, {"safe_risk": 0.1 - 1e-16}, {"alpha": 5e-324, "safe_risk": 0}],
)
def test_a_plan_for_more_rows_than_anyone_has_is_refused(settings):
    with pytest.raises(ValueError, match=r"more than 1e\+15 rows would be needed: alpha = "):
        tether.plan(**({"alpha": 0.1, "safe_risk": 0.05} | settings))


def test_the_smallest_spread_is_that_of_equal_policies():
    narrow = tether.plan(alpha=0.1, safe_risk=0.05, log_ratio_spread=5e-324)
    assert narrow.rows_needed == tether.plan(alpha=0.1, safe_risk=0.05).rows_needed
    assert all(np.isfinite(stated) for _, stated in narrow.promises)


def tables_of(log_safe, log_optimized, taken, loss, **settings):
    """A log of a few actions, with tables."""
    rows = np.arange(len(taken))
    return tether.Log(
        loss,
        log_safe[rows, taken],
        log_optimized[rows, taken],
        log_safe_all=log_safe,
        log_optimized_all=log_optimized,
        **settings,
    )


def test_a_plan_says_whether_a_log_with_tables_passes_already():
    rng = np.random.default_rng(0)
    safe = np.log(np.full((600, 3), 1 / 3))
    optimized = np.log(np.tile([0.2, 0.3, 0.5], (600, 1)))
    taken = rng.integers(3, size=600)
    log = tables_of(safe, optimized, taken, rng.random(600) < 0.05)
    made = tether.plan(log, promise=0.1)
    assert made.beta_of_log == tether.calibrate(log, promise=0.1).beta > 0
    assert "rows of this log pass already" in str(made)


def test_a_plan_of_a_log_that_refutes_itself_says_so():
    """The actions are all the one that the safe policy hardly takes."""
    rng = np.random.default_rng(0)
    safe = np.log(np.tile([0.49, 0.49, 0.02], (600, 1)))
    optimized = np.log(np.tile([0.2, 0.3, 0.5], (600, 1)))
    log = tables_of(safe, optimized, np.full(600, 2), rng.random(600) < 0.05)
    made = tether.plan(log, promise=0.1)
    assert made.refuted_by == tether.calibrate(log, promise=0.1).refuted_by != ()
    assert str(made).startswith("no plan: a calibration on this log does not hold")


def test_sizes_that_do_not_pass_have_no_promise_in_the_table():
    made = tether.plan(alpha=0.1, safe_risk=0.05, rows=5)
    assert made.betas == ((5, 0.0),)
    assert "none" in str(made).splitlines()[-2]
