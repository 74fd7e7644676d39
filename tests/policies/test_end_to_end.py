"""Policies → log → calibrate → Tethered → sample → losses: the risk stays below alpha.

Every world is run 200 times, from fresh data to deployed actions. A correct library fails one of
these tests with a probability of about 0.001; the seeds are fixed.
"""

import numpy as np
import pytest

import tether
from tests.scale import scaled

REPEATS = scaled(200)
FAMILIES = ("clip", "mix", "budgeted_clip(1)")


def repeat(world, family, alpha, repeats, seed):
    """The average loss of deployed actions and the log beta that was reached, in each repeat."""
    safe, optimized, contexts_of, loss_of, draws = world()
    rng = np.random.default_rng(seed)
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
    return losses, reached


def deployed_risk(world, family, alpha):
    """The risk over all repeats, its standard error, and how often something was deployed."""
    losses, reached = repeat(world, family, alpha, REPEATS, seed=11)
    return losses.mean(), losses.std() / np.sqrt(len(losses)), np.isfinite(reached).mean()


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
    """Two contexts and ten actions. In one context the policies overlap only in a harmful action:
    a single normalizer for all contexts, too large there, would make the harm look rare.
    """
    cost = np.zeros((2, 10))
    cost[0, 0] = cost[1, 9] = 1.0
    safe, optimized = np.full((2, 10), 0.1), np.full((2, 10), 0.1)
    safe[0] = np.array([0.04] + [0.96 / 9] * 9)
    optimized[0] = np.array([0.04] + [0.2] * 4 + [0.16 / 5] * 5)
    safe[1] = np.array([0.95 / 9] * 9 + [0.05])
    optimized[1] = np.array([0.1 / 9] * 9 + [0.9])
    return (
        tether.Categorical.from_probabilities(safe),
        tether.Categorical.from_probabilities(optimized),
        lambda rng: rng.integers(2, size=100),
        lambda contexts, actions: cost[contexts, actions],
        1,
    )


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("world", "alpha"), [(marginal, 0.12), (contextual, 0.12)])
def test_the_deployed_risk_is_at_most_alpha(world, alpha, family):
    risk, error, deployed = deployed_risk(world, family, alpha)
    assert risk <= alpha + 3 * error
    assert risk > 0.8 * alpha  # the risk is not low for lack of deployment
    assert deployed > 0.9
