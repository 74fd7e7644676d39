"""Stability against its definition: beta found again without each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.control.test_engine import by_definition
from tests.control.worlds import KINDS, World, make_world
from tests.scale import scaled


def psi_over_beta(world: World, log_beta):
    """What the weights of clip lack, from the draws: all are the optimized policy's."""
    ratio = world.draws["log_optimized"] - world.draws["log_safe"]
    log_beta = np.clip(log_beta, -world.reach, world.reach)
    return np.exp(np.minimum(0.0, ratio - log_beta) - ratio).mean()


def by_weights(world: World, log_beta):
    """Σ share·|r − 1| with the weights at the betas without each row."""
    unit = (lambda t: psi_over_beta(world, t)) if world.kind == "clip" else (lambda t: 1.0)
    end = (lambda t: t) if world.kind == "path" else (lambda t: float(np.clip(t, -1000, 1000)))
    here, test = world.weights(end(log_beta)), world.test(end(log_beta))
    changed = 0.0
    rows = np.arange(len(world))
    for i in rows:
        log_other = min(by_definition(world, np.delete(rows, i)).values())
        if log_other != log_beta:
            if world.kind == "path" and log_other == -np.inf:
                base = world._base(world.columns)
                there = np.exp(base)[i]
            else:
                there = world.weights(end(log_other))[i] / unit(log_other) * unit(log_beta)
            changed += abs(there - here[i])
    return changed / (here.sum() + test)


@settings(max_examples=scaled(20), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from([kind for kind in KINDS if kind != "own"]),
    mixture=st.booleans(),
    losses=st.integers(1, 2),
)
def test_stability_is_that_of_leaving_out_each_row(seed, kind, mixture, losses):
    world = make_world(seed, kind, rows=7, mixture=mixture, losses=losses)
    found = world.calibrate()
    if not found.exists:
        return
    loss = next(iter(found.losses.values()))
    stated = loss.terms.stability / max(loss.alpha, loss.bound - loss.alpha)
    expected = by_weights(world, found.log_beta)
    assert stated >= expected * (1 - 1e-6) - 1e-12
    if kind != "clip":  # which adds two standard errors of ψ, and has a bound
        assert stated == pytest.approx(expected, rel=1e-6, abs=1e-12)
