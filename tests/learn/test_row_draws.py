"""Draws by the content of a row: uniform over seeds, and the same wherever a row stands."""

import numpy as np
from scipy import sparse, stats

from tether.learn.row_draws import draw_by_row, uniform_by_row


def test_they_are_uniform_over_rows_and_over_seeds():
    rows = np.random.default_rng(0).normal(size=(4000, 2))
    assert stats.kstest(uniform_by_row(rows, 1), "uniform").pvalue > 1e-3
    one = [uniform_by_row(rows[:1], seed)[0] for seed in range(4000)]
    assert stats.kstest(one, "uniform").pvalue > 1e-3


def test_they_depend_on_the_row_alone():
    rows = np.random.default_rng(0).normal(size=(100, 2))
    together = uniform_by_row(rows, 3)
    assert (uniform_by_row(rows[::-1], 3)[::-1] == together).all()
    assert uniform_by_row(rows[5:6], 3)[0] == together[5]
    assert (uniform_by_row(rows.astype(object), 3) == together).all()
    assert (uniform_by_row(rows, 4) != together).all()
    assert len(np.unique(uniform_by_row(sparse.csr_array(np.eye(5)), 3))) == 5


def test_a_class_of_probability_zero_is_never_drawn_and_one_always():
    rows = np.arange(1000.0)[:, None]
    table = np.tile([0.0, 1.0, 0.0], (1000, 1))
    assert set(draw_by_row(table, rows, 0)) == {1}
    table = np.tile([0.5, 0.0, 0.5], (1000, 1))
    assert set(draw_by_row(table, rows, 0)) == {0, 2}
