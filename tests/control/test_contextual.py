"""Contexts: one normalizer each, exact for tables and from draws otherwise."""

import numpy as np
import pytest

import tether
from tests.control import oracle
from tether.control.problem import pose


def softmax_log(rng, contexts, actions, spread):
    scores = spread * rng.normal(size=(contexts, actions))
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def finite_world(rng, rows=25, actions=4, mixed=False):
    """A log of a finite action set, its tables, and the calibrated risk by the definition."""
    safe, optimized = (softmax_log(rng, rows, actions, spread) for spread in (0.7, 1.5))
    mix = np.logaddexp(safe, softmax_log(rng, rows, actions, 0.5)) - np.log(2) if mixed else safe
    taken = rng.integers(actions, size=rows)
    loss = (rng.random(rows) < 0.15).astype(float)
    at = (np.arange(rows), taken)
    log = tether.Log(
        loss,
        safe[at],
        optimized[at],
        log_safe_all=safe,
        log_optimized_all=optimized,
        log_mix=mix[at] if mixed else None,
        log_mix_all=mix if mixed else None,
    )

    def risk(grid):
        kernel = np.exp(
            np.minimum(optimized[..., None], safe[..., None] + grid).astype(oracle.LONG)
        )
        psi = kernel.sum(axis=1)
        weight = kernel / psi[:, None] / np.exp(mix[..., None].astype(oracle.LONG))
        return oracle.contextual_risk(loss, weight[at] * psi, psi, weight.max(axis=(0, 1)))

    return log, risk, (optimized - safe).min() - 1, (optimized - safe).max() + 1


def drawn_world(rng, rows=20, draws=6):
    """A log with a context a row, draws from both policies, and the risk by the definition."""
    shift = rng.normal(size=rows)
    action, label = rng.normal(size=rows), np.repeat(np.arange(rows), draws)
    source = rng.choice(["safe", "optimized"], size=len(label))
    drawn = rng.normal(size=len(label)) + np.where(source == "safe", 0, shift[label])
    score = lambda a, m: -((a - m) ** 2) / 2  # noqa: E731
    loss = (rng.random(rows) < 0.2).astype(float)
    log = tether.Log(loss, score(action, 0), score(action, shift), context=np.arange(rows))
    safe, optimized = score(drawn, 0), score(drawn, shift[label])
    order = rng.permutation(len(label))
    proposals = tether.Proposals(
        safe[order], optimized[order], context=label[order], source=source[order]
    )

    def risk(grid):
        rows_m = oracle.clip_weights(log.log_safe, log.log_optimized, log.log_safe, grid)
        psi, top = [], []
        for context in range(rows):
            mine = label == context
            from_safe = (source[mine] == "safe").sum()
            ratio = np.exp((optimized - safe)[mine].astype(oracle.LONG))[:, None]
            clipped = np.minimum(ratio, np.exp(grid.astype(oracle.LONG)))
            psi.append((clipped / (from_safe + (mine.sum() - from_safe) * ratio)).sum(axis=0))
            top.append((clipped / psi[-1]).max(axis=0))
        return oracle.contextual_risk(loss, rows_m, np.array(psi), np.max(top, axis=0))

    ratios = np.append(optimized - safe, log.log_optimized - log.log_safe)
    return log, proposals, risk, ratios.min() - 1, ratios.max() + 1


def assert_supremum(found, risk, lo, hi, alpha):
    grid = np.linspace(lo, hi, 4001)
    risks = risk(grid)
    below = risks[grid <= found.log_beta]
    assert (below <= alpha * (1 + 2e-3)).all()  # the search's resolution between its points
    if not found.exists:
        assert risks[0] > alpha * (1 - 1e-9)
    elif np.isfinite(found.log_beta):
        assert risk(np.array([found.log_beta + 1e-7]))[0] > alpha * (1 - 1e-9)
        assert found.risk == pytest.approx(alpha, rel=1e-6)
    else:
        assert risks[-1] <= alpha * (1 + 1e-9)


@pytest.mark.parametrize("mixed", [False, True])
def test_tables_against_the_definition(mixed):
    rng = np.random.default_rng(11 + mixed)
    outcomes = set()
    for _ in range(60):
        log, risk, lo, hi = finite_world(rng, mixed=mixed)
        found = tether.calibrate(log, alpha=0.3)
        assert_supremum(found, risk, lo, hi, 0.3)
        outcomes.add(bool(found.exists) + bool(found.beta == np.inf))
    assert outcomes == {0, 1, 2}


def test_draws_against_the_definition():
    rng = np.random.default_rng(12)
    outcomes = set()
    for _ in range(60):
        log, proposals, risk, lo, hi = drawn_world(rng)
        found = tether.calibrate(log, proposals, alpha=0.35)
        assert_supremum(found, risk, lo, hi, 0.35)
        outcomes.add(bool(found.exists) + bool(found.beta == np.inf))
    assert {0, 1} <= outcomes


def test_plain_numbers_and_logs_agree():
    rng = np.random.default_rng(13)
    for mixed in (False, True):
        log, _, lo, hi = finite_world(rng, mixed=mixed)
        for test_weight in ("empirical", 3.0):
            problem = pose(log, None, tether.Clip(), test_weight)
            for log_beta in np.linspace(lo, hi, 7):
                fast, last = problem.shares(log_beta)
                rows, test = problem.log_weights(log_beta)
                total = np.exp(rows).sum() + np.exp(test)
                assert fast == pytest.approx(np.exp(rows) / total)
                assert last == pytest.approx(np.exp(test) / total)


def test_analytic_test_weight_in_contexts():
    rng = np.random.default_rng(14)
    for _ in range(20):
        log, proposals, *_ = drawn_world(rng, rows=40)
        empirical = tether.calibrate(log, proposals, alpha=0.4)
        analytic = tether.calibrate(log, proposals, alpha=0.4, test_weight="analytic")
        assert analytic.log_beta <= empirical.log_beta + 1e-9
        if analytic.exists:
            assert analytic.risk == pytest.approx(0.4, rel=1e-6)


def test_analytic_beta_past_every_ratio():
    """Nothing harmful in the log: only the growing test weight stops beta."""
    safe = np.log(np.full((200, 2), 0.5))
    optimized = np.log(np.tile([0.7, 0.3], (200, 1)))
    log = tether.Log(
        np.zeros(200), safe[:, 0], optimized[:, 0], log_safe_all=safe, log_optimized_all=optimized
    )
    assert tether.calibrate(log, alpha=0.1).beta == np.inf
    found = tether.calibrate(log, alpha=0.1, test_weight="analytic")
    # Past ratio 1.4 weights are 1.4, ψ is 1, the test weight is beta: 200·0.1·1.4 = 0.9·beta.
    assert found.beta == pytest.approx(200 * 0.1 * 1.4 / 0.9)


def test_wide_ratios_stay_in_logs():
    rng = np.random.default_rng(15)
    rows = 60
    action = rng.normal(size=rows)
    log = tether.Log(action > 2, action, action * 4000, context=np.arange(rows))
    label = np.repeat(np.arange(rows), 4)
    drawn = rng.normal(size=len(label))
    proposals = tether.Proposals(drawn, drawn * 4000, context=label)
    found = tether.calibrate(log, proposals, alpha=0.2)
    assert 0 <= found.risk <= 1
    assert found.stability >= 0


def test_budgeted_clip_is_between_clip_and_safe():
    rng = np.random.default_rng(16)
    for _ in range(10):
        log, *_ = finite_world(rng, rows=80)
        betas = [
            tether.calibrate(log, alpha=0.25, family=family).log_beta
            for family in (tether.BudgetedClip(1), tether.BudgetedClip(3), "clip")
        ]
        found = tether.calibrate(log, alpha=0.25, family=tether.BudgetedClip(10_000))
        assert found.log_beta == pytest.approx(betas[-1], abs=0.05) or found.log_beta == betas[-1]


def test_family_without_a_stated_smoothness():
    """The geometric path safe^(1−s)·optimized^s, s = β/(1+β): a family of the user's own."""

    class Tilt(tether.Family):
        name = "tilt"

        def log_kernel(self, log_safe, log_optimized, log_beta):
            share = 1 / (1 + np.exp(-log_beta))
            return (1 - share) * log_safe + share * log_optimized

    rng = np.random.default_rng(17)
    seen = set()
    for _ in range(25):
        log, _, lo, hi = finite_world(rng, rows=60)
        found = tether.calibrate(log, alpha=0.25, family=Tilt())
        problem = pose(log, None, Tilt(), "empirical")
        grid = np.linspace(lo - 10, hi + 10, 800)
        risks = np.array([problem.risk(found.constraints[0], t) for t in grid])
        assert (risks[grid <= found.log_beta] <= 0.25 * 1.002).all()
        if np.isfinite(found.log_beta):
            assert found.risk == pytest.approx(0.25, rel=1e-6)
            assert 0 < found.smoothness < 10
            assert "tilt" in str(found)
            assert np.isnan(found.acceptance)
        seen.add(bool(np.isfinite(found.log_beta)))
    assert True in seen


def test_mix_needs_no_normalizer():
    rng = np.random.default_rng(18)
    log, proposals, *_ = drawn_world(rng, rows=60)
    marginal = tether.Log(log.loss, log.log_safe, log.log_optimized)
    at_large = tether.Proposals(proposals.log_safe, proposals.log_optimized)
    assert tether.calibrate(log, proposals, alpha=0.5, family="mix").log_beta == (
        tether.calibrate(marginal, at_large, alpha=0.5, family="mix").log_beta
    )
    assert tether.calibrate(log, alpha=0.5, family="mix", test_weight=20.0).exists


def test_a_contextual_log_is_never_marginal():
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


def test_string_contexts_and_contexts_the_log_lacks():
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


def test_a_normalizer_past_one_is_an_error():
    """Draws scored under another distribution than the one they came from give themselves away."""
    rng = np.random.default_rng(21)
    drawn = rng.normal(size=4000)
    wrong = tether.Proposals(-(drawn**2) / 2, -((drawn - 1) ** 2) / 2 + 0.7, source="safe")
    log = tether.Log(drawn > 2, -(drawn**2) / 2, -((drawn - 1) ** 2) / 2)
    with pytest.raises(ValueError, match=r"normalizer comes out as 2.0"):
        tether.calibrate(log, wrong, alpha=0.2)
    right = tether.Proposals(-(drawn**2) / 2, -((drawn - 1) ** 2) / 2, source="safe")
    assert tether.calibrate(log, right, alpha=0.2).exists
