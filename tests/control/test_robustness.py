"""How wrong weights may be before no beta passes: just below there is one, just above none."""

import numpy as np
import pytest

import tether
from tests.control.example_logs import (
    drawn_world,
    finite_world,
    gaussian_columns,
    log_and_proposals,
)


def worlds(seed):
    """Logs without contexts, with tables and with draws."""
    rng = np.random.default_rng(seed)
    return (
        log_and_proposals(gaussian_columns(rng, 150, 60), False),
        finite_world(rng, rows=80, mixed=seed % 2 == 0)[:1],
        drawn_world(rng, rows=80)[:2],
    )


def assert_largest(made, **how):
    """A beta exists just below the robustness, and none just above it."""
    found = tether.calibrate(*made, **how)
    factor = found.robustness
    if factor <= 1 + 1e-6:
        assert not found.exists
        return False
    assert found.exists
    at_most = tether.calibrate(*made, ratio_error=max(factor * (1 - 1e-6), 1.0), **how)
    above = tether.calibrate(*made, ratio_error=factor * (1 + 1e-6), **how)
    assert at_most.exists
    assert not above.exists
    assert at_most.log_beta <= found.log_beta + 1e-9
    # It is a property of the log and of alpha, whatever is allowed for.
    assert at_most.robustness == above.robustness == pytest.approx(factor)
    return True


@pytest.mark.parametrize("family", ["clip", "mix", "budgeted_clip(3)"])
def test_a_beta_exists_up_to_the_robustness_and_not_beyond(family):
    robust = 0
    for seed in range(4):
        for made in worlds(seed):
            if family.startswith("budgeted") and len(made) == 2 and not made[1].from_safe.any():
                continue  # a budget needs draws of both policies
            robust += assert_largest(made, alpha=0.3, family=family)
    assert robust >= 4


@pytest.mark.parametrize("test_weight", ["analytic", 2.0])
def test_other_test_weights(test_weight):
    assert sum(
        assert_largest(made, alpha=0.3, test_weight=test_weight)
        for seed in range(3)
        for made in worlds(seed)
    )


def test_several_losses():
    """The loss that leaves the least decides."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        log, proposals = log_and_proposals(gaussian_columns(rng, 200, 60), False)
        losses = {**log.loss, "delay": 2.0 * (rng.random(200) < 0.1)}
        both = tether.Log(losses, log.log_safe, log.log_optimized)
        how = {"alpha": {"loss": 0.15, "delay": 0.4}, "bound": {"loss": 1.0, "delay": 2.0}}
        assert assert_largest((both, proposals), **how)
        each = []
        for name in losses:
            one = tether.Log({name: losses[name]}, log.log_safe, log.log_optimized)
            targets = {key: value[name] for key, value in how.items()}
            each.append(tether.calibrate(one, proposals, **targets).robustness)
        found = tether.calibrate(both, proposals, **how)
        assert found.robustness == pytest.approx(min(each))


def test_by_hand():
    """Equal policies: 18 rows below alpha by 0.2 against one harmful row and the test point."""
    loss = np.repeat([1.0, 0.0], [1, 18])
    log = tether.Log(loss, np.zeros(19), np.zeros(19))
    found = tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.2)
    assert found.robustness == pytest.approx(np.sqrt(18 * 0.2 / (2 * 0.8)))
    assert "1.5: each weight may be wrong by this factor" in " ".join(found.summary().split())
    allowed = tether.calibrate(log, tether.Proposals([0.0], [0.0]), alpha=0.2, ratio_error=1.25)
    assert "1.25 is allowed for" in " ".join(allowed.summary().split())
    assert allowed.robustness == pytest.approx(1.5)
    harmful = tether.Log(np.ones(5), np.zeros(5), np.zeros(5))
    none = tether.calibrate(harmful, tether.Proposals([0.0], [0.0]), alpha=0.2)
    assert none.robustness == 0.0
    assert not none.exists
