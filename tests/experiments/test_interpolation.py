"""Accepted draws follow the tethered density, at the acceptance that was expected."""

import numpy as np
import pytest
from experiments.interpolation.__main__ import Exact, draws, main
from scipy.stats import kstest, norm

import tether
from tests.experiments.read import table

SAFE, OPTIMIZED = tether.Gaussian(0.0, 1.0), tether.Gaussian(2.0, 1.0)


def test_the_integral_is_the_overlap_at_beta_one():
    exact = Exact(SAFE, OPTIMIZED, 1.0)
    assert exact.acceptance == pytest.approx(2 * norm.cdf(-1), abs=1e-6)
    assert exact.distance(exact.safe) == pytest.approx(exact.distance(exact.optimized))


@pytest.mark.parametrize(("beta", "proposer"), [(0.05, "safe"), (20.0, "optimized")])
def test_what_was_rejected_is_the_rest_of_the_proposals(beta, proposer):
    taken, rejected, who = draws(SAFE, OPTIMIZED, beta, 5_000, np.random.default_rng(0))
    assert who == proposer
    exact = Exact(SAFE, OPTIMIZED, beta)
    assert kstest(taken, exact.distribution).pvalue > 1e-3
    every = np.concatenate([taken, rejected])  # together they are plain draws of the proposer
    assert kstest(every, norm(0 if who == "safe" else 2, 1).cdf).pvalue > 1e-3


def test_quick_run(tmp_path):
    main(["--quick", "--out", str(tmp_path)])
    rows = table(tmp_path / "acceptance.csv")
    for row in rows:
        off = row["acceptance_observed"] - row["acceptance_exact"]
        assert abs(off) <= 5 * row["observed_error"]
        off = row["acceptance_expected"] - row["acceptance_exact"]
        assert abs(off) <= 5 * row["expected_error"]
        assert row["kolmogorov_p"] > 1e-4
    worst = min(rows, key=lambda row: row["acceptance_observed"])
    assert worst["beta"] == 1
    distances = [row["distance_to_safe"] for row in rows]
    assert distances == sorted(distances)
    counts = table(tmp_path / "histograms.csv")
    assert {row["beta"] for row in counts} == {0.01, 1.0, 100.0}
    lost = {beta: sum(r["rejected"] for r in counts if r["beta"] == beta) for beta in (0.01, 1.0)}
    assert lost[1.0] > 10 * lost[0.01]
    for name in ("three_betas", "acceptance"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 5_000
