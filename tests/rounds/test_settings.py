"""Settings are checked before they are stored, and a store keeps its own."""

import numpy as np
import pytest

import tether
from tests.rounds.small_runs import controller
from tests.rounds.worlds import World, one_round
from tether.rounds import Controller


def test_a_store_is_refused_by_another_policy_or_other_terms(tmp_path):
    world, rng = World("marginal"), np.random.default_rng(14)
    store = tmp_path / "run.db"
    with controller(world, store) as run:
        one_round(run, world, 1, 50, rng)
    with pytest.raises(ValueError, match="the safe policy is not the one that"):
        Controller(tether.Gaussian(0.1), alpha=0.2, alarm_risk=0.9, store=store)
    hidden = tether.FunctionPolicy(
        lambda contexts, rng: rng.normal(size=contexts),
        lambda contexts, actions: tether.Gaussian(0.1).log_prob(contexts, actions),
    )
    with pytest.raises(ValueError, match=r"not the 'safe' of this store: it scores"):
        Controller(hidden, alpha=0.2, alarm_risk=0.9, store=store)
    with pytest.raises(ValueError, match=r"alpha is 0.3 but .*run.db was created with 0.2"):
        controller(world, store, alpha=0.3)
    with pytest.raises(ValueError, match="missing is 'exclude'"):
        controller(world, store, missing="exclude")
    controller(world, store).close()
