"""Draws in each context, and the normalizing constants that they give."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import drawn_world
from tether.control.context_draws import gather_draws
from tether.control.densities import NormalizedDensities


def test_a_log_with_contexts_is_never_calibrated_without_them():
    rng = np.random.default_rng(19)
    log, proposals, *_ = drawn_world(rng)
    at_large = tether.Proposals(proposals.log_safe, proposals.log_optimized)
    with pytest.raises(ValueError, match="the log has contexts but the proposals has none"):
        tether.calibrate(log, at_large, alpha=0.3)
    with pytest.raises(ValueError, match="the log has contexts, so proposals are needed"):
        tether.calibrate(log, alpha=0.3)
    marginal = tether.Log(log.loss, log.log_safe, log.log_optimized)
    with pytest.raises(ValueError, match="the proposals has contexts but the log has none"):
        tether.calibrate(marginal, proposals, alpha=0.3)
    few = proposals.context != 7
    fewer = tether.Proposals(
        proposals.log_safe[few], proposals.log_optimized[few], context=proposals.context[few]
    )
    with pytest.raises(ValueError, match=r"no draw in context 7 of the log \(1 such"):
        tether.calibrate(log, fewer, alpha=0.3)


def test_contexts_may_be_strings():
    rng = np.random.default_rng(20)
    log, proposals, *_ = drawn_world(rng)
    named = tether.Log(
        log.loss, log.log_safe, log.log_optimized, context=[f"patient {c}" for c in log.context]
    )
    labels = np.array([f"patient {c}" for c in proposals.context], dtype=object)
    drawn = tether.Proposals(
        proposals.log_safe,
        proposals.log_optimized,
        context=labels,
        source=np.where(proposals.from_safe, "safe", "optimized"),
    )
    assert tether.calibrate(named, drawn, alpha=0.4).log_beta == pytest.approx(
        tether.calibrate(log, proposals, alpha=0.4).log_beta
    )


def test_a_normalizer_above_one_is_an_error():
    """Draws scored under another distribution than the one they came from give themselves away."""
    rng = np.random.default_rng(21)
    drawn = rng.normal(size=4000)
    wrong = tether.Proposals(-(drawn**2) / 2, -((drawn - 1) ** 2) / 2 + 0.7, source="safe")
    log = tether.Log(drawn > 2, -(drawn**2) / 2, -((drawn - 1) ** 2) / 2)
    with pytest.raises(ValueError, match=r"normalizer comes out as 2.0"):
        tether.calibrate(log, wrong, alpha=0.2)
    right = tether.Proposals(-(drawn**2) / 2, -((drawn - 1) ** 2) / 2, source="safe")
    assert tether.calibrate(log, right, alpha=0.2).exists


def test_a_few_draws_may_agree_by_chance():
    log = tether.Log(np.zeros(50), np.zeros(50), np.zeros(50))
    assert tether.calibrate(log, tether.Proposals([0.0], [0.5], source="safe"), alpha=0.1).exists
    with pytest.raises(ValueError, match="normalizer comes out as inf"):
        tether.calibrate(log, tether.Proposals([0.0], [800.0], source="safe"), alpha=0.1)


def test_a_context_without_possible_draws_is_an_error():
    n = 40
    safe, optimized = np.log(np.full((2, n, 2), 0.5))
    with np.errstate(divide="ignore"):
        safe[0], optimized[0] = np.log([1.0, 0.0]), np.log([0.0, 1.0])
    tables = {"log_safe_all": safe, "log_optimized_all": optimized}
    log = tether.Log(np.zeros(n), safe[:, 0], optimized[:, 0], **tables)
    with pytest.raises(ValueError, match="context number 0 has no draw that both policies"):
        tether.calibrate(log, alpha=0.1, blend=0)
    found = tether.calibrate(log, alpha=0.1)  # the blend of the two policies can take both
    assert found.exists
    assert found.blend == 0.01


def test_a_context_in_which_every_proposal_is_rejected_has_the_safe_policy():
    """Budgeted clip divides by no normalizer: it gives up, and the weight of the row is one."""
    n, drawn = 40, np.zeros(80)
    drawn[0] = -np.inf
    log = tether.Log(np.zeros(n), np.zeros(n), np.zeros(n), context=np.arange(n))
    proposals = tether.Proposals(
        np.zeros(2 * n),
        drawn,
        context=np.repeat(np.arange(n), 2),
        source=np.tile(["safe", "optimized"], n),
    )
    found = tether.calibrate(log, proposals, alpha=0.1, blend=0)
    densities = found._problem.densities
    tries, fallback = densities.log_averages(-1.0)
    assert tries[densities.row] == pytest.approx(np.zeros(n))
    assert fallback[densities.row].tolist() == [0.0] + [-np.inf] * (n - 1)
    impossible = densities.log_density(np.zeros(1), np.full(1, -np.inf), densities.row[:1], -1.0)
    assert impossible == 0.0


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
    densities = NormalizedDensities(tether.Clip(), gather_draws(log, proposals))
    exact = -depth + np.log((1 + np.exp(-0.6)) / 2)
    assert densities.log_psi(0.0) == pytest.approx(np.full(n, exact), abs=1e-9)


def test_contexts_of_another_type_are_not_matched():
    log = tether.Log([0.0], [0.0], [0.0], context=[1])
    proposals = tether.Proposals([0.0], [0.0], context=["1"])
    with pytest.raises(TypeError, match=r"context is int64 in the log and <U1 in the proposals"):
        tether.calibrate(log, proposals, alpha=0.2)


@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_mass_is_that_of_both_policies(spread):
    """Ratios within the range of floats and outside it, zeros, and a context without safe draws."""
    rng = np.random.default_rng(23)
    context = np.repeat(np.arange(40), 5)
    safe, optimized = spread * rng.normal(size=(2, 200))
    from_safe = (rng.random(200) < 0.5) & (context > 0)
    if spread > 1:
        safe[from_safe & (rng.random(200) < 0.1)] = -800.0
        optimized[from_safe & (rng.random(200) < 0.1)] = -np.inf
    source = np.where(from_safe, "safe", "optimized")
    log = tether.Log(np.zeros(40), np.zeros(40), np.zeros(40), context=np.arange(40))
    proposals = tether.Proposals(safe, optimized, context=context, source=source)
    made = np.array([from_safe[context == each].sum() for each in range(40)])[context]
    with np.errstate(divide="ignore"):
        expected = np.logaddexp(safe + np.log(made), optimized + np.log(5 - made))
    assert gather_draws(log, proposals).log_mass == pytest.approx(expected, abs=1e-11, rel=1e-14)
