"""Scores are computed once, and a policy that changed since is refused."""

import numpy as np
import pytest

import tether
from tether.rounds import Controller


def test_scores_of_a_policy_that_was_refused_are_not_those_of_the_next():
    names = ["a", "b", "c"]
    safe, refused, accepted = (
        tether.Categorical.from_probabilities(shares, actions=names)
        for shares in ([0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.3, 0.7, 0.0])
    )
    betas = []
    for tries_first in (True, False):
        run, rng = Controller(safe, alpha=0.3, store="sqlite://"), np.random.default_rng(4)
        taken = run.begin().act(np.zeros((200, 1)), rng)
        run.observe(taken.ids, 0.4 * (taken.actions == "b") + 0.05)
        if tries_first:
            with pytest.raises(ValueError, match="takes actions that the safe policy never takes"):
                run.begin(refused)
        betas.append(run.begin(accepted).calibration.log_beta)
        run._scores.refresh()
        [stored] = run._scores.read("log_optimized_all", [2], 0, 100, 3).values()
        stored = stored[~np.isnan(stored).any(axis=1)]
        np.testing.assert_array_equal(
            stored, accepted.log_prob_all(len(stored)).repeat(len(stored), 0)
        )
    assert betas[0] == betas[1]
    assert np.isfinite(betas[0])
