"""Test weights: empirical, analytic and fixed, against the definition."""

import numpy as np
import pytest

import tether
from tests.control.direct_formulas import assert_supremum
from tests.control.example_logs import drawn_world, log_and_proposals, random_columns


def test_analytic_and_fixed_test_weights():
    rng = np.random.default_rng(3)
    finite = 0
    for _ in range(200):
        made = random_columns(rng, int(rng.integers(5, 40)), 5)
        log, proposals = log_and_proposals(made, False)
        found = tether.calibrate(log, proposals, alpha=0.3, test_weight="analytic")
        assert_supremum(made, found, 0.3, "clip", test=lambda rows, grid: np.exp(grid))
        assert found.beta < np.inf
        found = tether.calibrate(log, alpha=0.3, test_weight=2.5)
        # Without draws the normalizer is the mean weight of the log's own rows.
        assert_supremum(
            {**made, "draw_safe": made["safe"], "draw_optimized": made["optimized"]},
            found,
            0.3,
            "clip",
            test=lambda rows, grid: 2.5 * rows.mean(axis=0),
        )
        finite += np.isfinite(found.log_beta)
        found = tether.calibrate(log, alpha=0.3, test_weight=2.5, family="mix")
        assert_supremum(made, found, 0.3, "mix", test=lambda rows, grid: 2.5 + 0 * grid)
    assert finite > 20


def test_a_fixed_test_weight_takes_the_normalizer_from_proposals():
    rng = np.random.default_rng(5)
    for _ in range(100):
        made = random_columns(rng, 30, 10)
        log, proposals = log_and_proposals(made, False)

        def test(rows, grid, made=made):
            ratio = (made["draw_optimized"] - made["draw_safe"])[:, None]
            return 1.5 * np.exp(np.minimum(grid - ratio, 0)).mean(axis=0)

        found = tether.calibrate(log, proposals, alpha=0.3, test_weight=1.5)
        assert_supremum(made, found, 0.3, "clip", test=test)


def test_analytic_test_weight_in_contexts():
    rng = np.random.default_rng(14)
    for _ in range(20):
        log, proposals, *_ = drawn_world(rng, rows=40)
        empirical = tether.calibrate(log, proposals, alpha=0.4)
        analytic = tether.calibrate(log, proposals, alpha=0.4, test_weight="analytic")
        assert analytic.log_beta <= empirical.log_beta + 1e-9
        if analytic.exists:
            assert analytic.risk == pytest.approx(0.4, rel=1e-6)


def test_the_analytic_test_weight_can_stop_beta_above_every_ratio():
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
