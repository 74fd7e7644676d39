"""Nothing useful is promised for a policy whose decisions the log does not contain."""

import json
import math

import numpy as np
import pytest

import tether
from tether._core import records
from tether.control.coverage import COVERAGE_FALSE_ALARM, coverage_of, is_covered, mean_limit


def test_the_limit_by_hand():
    weights = np.array([0.0, 1.0, 2.0, 3.0])
    sums = np.log([weights.sum(), (weights**2).sum()])
    found = coverage_of(4, *sums, math.log(5.0))
    log_odds = math.log(2 / COVERAGE_FALSE_ALARM)
    variance = weights.var(ddof=1)
    expected = 1.5 + math.sqrt(2 * variance * log_odds / 4) + 7 * 5 * log_odds / 9
    assert found[:2] == pytest.approx((1.5, expected))
    drawn = coverage_of(4, *sums, math.log(5.0), draws=100)
    assert drawn.limit - found.limit == pytest.approx(-math.log(COVERAGE_FALSE_ALARM) / 100)


@pytest.mark.parametrize(
    "sums", [(1, 0.0, 0.0, 0.0), (9, -math.inf, -math.inf, 0.0), (9, 0.0, 0.0, math.inf),
             (9, 900.0, 1800.0, 900.0)],
)  # fmt: skip
def test_coverage_is_unknown_where_nothing_can_be_said(sums):
    assert coverage_of(*sums) is None
    assert is_covered(None, 1.0)


def test_the_limit_holds_at_its_level_and_would_fail_without_its_terms():
    """Skewed weights, 0 or W: the mean of few rows is often far below the truth, the limit not."""
    rng = np.random.default_rng(0)
    rows, largest = 200, 8.0
    weights = largest * (rng.random((4000, rows)) < 1 / largest)
    limits, naive = [], []
    for each in weights:
        mean, variance = each.mean(), each.var(ddof=1)
        limits.append(mean_limit(rows, mean, variance, largest, 0.1))
        naive.append(mean + math.sqrt(variance / rows))
    assert np.mean(np.array(limits) < 1) <= 0.1
    assert np.mean(np.array(naive) < 1) > 0.1  # a limit without its terms is exceeded


SAFE = np.array([0.6, 0.3, 0.1])
NEW = np.array([0.3, 0.2, 0.5])


def bandit_log(taken, floor=0.1):
    return tether.Log(
        np.zeros(len(taken)), np.log(SAFE)[taken], np.log(NEW)[taken],
        context=np.arange(len(taken)), max_ratio=1 / floor,
    )  # fmt: skip


@pytest.mark.parametrize("family", ["mix"])
def test_a_log_without_an_action_of_the_policy_promises_nothing_useful(family):
    rng = np.random.default_rng(1)
    taken = rng.choice(3, size=4000, p=SAFE)
    whole = tether.calibrate(bandit_log(taken), alpha=0.1, family=family)
    assert whole.useful
    assert whole.covered
    assert whole.coverage == pytest.approx(1, abs=0.1)
    assert "the optimized policy passes as it is" in str(whole)
    with pytest.warns(tether.AssumptionWarning, match=r"contains only 5\d\.\d% of what the"):
        part = tether.calibrate(bandit_log(taken[taken < 2]), alpha=0.1, family=family)
    assert part.beta == np.inf
    assert not part.covered
    assert not part.useful
    assert "as it is" not in str(part)
    assert "beta = inf: the log does not contain what this policy does" in str(part)
    assert part.statement.startswith("no useful promise")
    with pytest.warns(tether.AssumptionWarning, match="nothing useful is promised"):
        part = tether.calibrate(
            bandit_log(taken[taken < 2]), alpha=0.1, family=family, confidence=0.9
        )
    assert part.exists
    assert part.statement.startswith("no useful promise: with probability at least 0.9")
    assert "no useful promise: the expected loss" in str(part)


def test_it_is_told_at_a_finite_beta_and_by_a_ratio_error_that_is_allowed_for():
    rng = np.random.default_rng(2)
    taken = rng.choice(3, size=20_000, p=SAFE)
    taken = taken[taken < 2]
    log = bandit_log(taken)
    log.loss["loss"] = np.asarray(rng.random(len(taken)) < 0.2 * (taken == 1))
    with pytest.warns(tether.AssumptionWarning, match="nothing useful is promised"):
        found = tether.calibrate(log, alpha=0.077, family="mix")
    assert 0 < found.beta < np.inf
    assert not found.covered
    with pytest.warns(tether.AssumptionWarning, match="nothing useful is promised"):
        close = tether.calibrate(log, alpha=0.12, family="mix", ratio_error=1.05)
    assert not close.covered
    assert tether.calibrate(log, alpha=0.3, family="mix", ratio_error=2.5).covered


def test_true_logs_are_covered():
    """300 logs of three kinds, small and skewed ones among them."""
    rng = np.random.default_rng(3)
    for _ in range(100):
        rows = int(rng.integers(20, 800))
        safe, new = rng.dirichlet(np.ones(4) * rng.choice([0.3, 3.0]), size=2)
        safe = 0.9 * safe + 0.025
        taken = rng.choice(4, size=rows, p=safe)
        loss = rng.random(rows) < 0.1
        columns = loss, np.log(safe)[taken], np.log(new)[taken]
        tables = {"log_safe_all": np.log(safe), "log_optimized_all": np.log(new)}
        tables = {name: np.broadcast_to(row, (rows, 4)) for name, row in tables.items()}
        logs = [
            (tether.Log(*columns, **tables), "clip", None),
            (tether.Log(*columns, context=taken * 0, max_ratio=1 / safe.min()), "mix", None),
            (tether.Log(*columns), "clip", tether.Proposals(np.log(safe), np.log(new))),
        ]
        for log, family, proposals in logs:
            assert tether.calibrate(log, proposals, alpha=0.5, family=family).covered


def test_coverage_is_saved_and_checked():
    rng = np.random.default_rng(4)
    taken = rng.choice(3, size=4000, p=SAFE)
    with pytest.warns(tether.AssumptionWarning, match="nothing useful is promised"):
        part = tether.calibrate(bandit_log(taken[taken < 2]), alpha=0.1, family="mix")
    content = records.decode(json.loads(json.dumps(records.encode(part.to_dict()))))
    again = tether.Calibration.from_dict(content)
    assert (again.coverage, again.coverage_limit) == (part.coverage, part.coverage_limit)
    assert not again.useful
    assert again.to_dict() == part.to_dict()
    with pytest.raises(ValueError, match="useful is True, but the other entries give False"):
        tether.Calibration.from_dict({**content, "useful": True})
    with pytest.raises(ValueError, match="coverage_limit must be at least"):
        tether.Calibration.from_dict({**content, "coverage_limit": 0.1})
    with pytest.raises(ValueError, match="must both be numbers, or neither"):
        tether.Calibration.from_dict({**content, "coverage": None})
