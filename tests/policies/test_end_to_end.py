"""Policies → log → calibrate → Tethered → sample → losses: the risk stays below alpha.

Every world is run 2,000 times, from fresh data to deployed actions. A right library fails one of
these tests with a chance of about one in a thousand, and the seeds are fixed.
"""

import numpy as np
import pytest

import tether

REPEATS = 2000
FAMILIES = ("clip", "mix", "budgeted_clip(3)")


def deployed_risk(world, family, alpha, repeats=REPEATS):
    """The average loss of deployed actions over many repeats, and its standard error."""
    safe, optimized, contexts_of, loss_of, draws = world
    rng = np.random.default_rng(11)
    losses, reached = np.empty(repeats), np.empty(repeats)
    for k in range(repeats):
        contexts = contexts_of(rng)
        actions = safe.sample(contexts, rng)
        log = tether.make_log(safe, optimized, contexts, actions, loss_of(contexts, actions))
        proposals = tether.make_proposals(safe, optimized, contexts, draws, rng)
        found = tether.calibrate(log, proposals, alpha=alpha, family=family)
        fresh = contexts_of(rng)
        taken = tether.Tethered(safe, optimized, found).sample(fresh, rng)
        losses[k] = loss_of(fresh, taken).mean()
        reached[k] = found.log_beta
    return losses.mean(), losses.std() / np.sqrt(repeats), reached


def marginal():
    """The Gaussian world: the optimized policy's risk is 0.266, the safe one's 0.067."""
    return (
        tether.Gaussian(0.0, 1.0),
        tether.Gaussian(1.0, 0.8),
        lambda rng: 100,
        lambda contexts, actions: (actions > 1.5).astype(float),
        100,
    )


def contextual():
    """Two contexts and ten actions, where one normalizer for all would be wrong."""
    rng = np.random.default_rng(2)
    tables = rng.normal(size=(2, 2, 10))
    cost = np.array([[0.0] * 9 + [1.0], [0.0, 1.0] * 5])
    tables[1] += 1.5 * cost
    safe, optimized = (tether.Categorical.from_logits(table) for table in tables)
    return (
        safe,
        optimized,
        lambda rng: rng.integers(2, size=60),
        lambda contexts, actions: cost[contexts, actions],
        1,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_marginal(family):
    risk, error, reached = deployed_risk(marginal(), family, alpha=0.12)
    assert risk <= 0.12 + 3 * error
    assert np.isfinite(reached).mean() > 0.5
    assert risk > 0.08


@pytest.mark.parametrize("family", FAMILIES)
def test_contextual(family):
    risk, error, reached = deployed_risk(contextual(), family, alpha=0.25)
    assert risk <= 0.25 + 3 * error
    assert np.isfinite(reached).mean() > 0.5
