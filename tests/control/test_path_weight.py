"""The test weight of a path: the heaviest draw of policies up to the one that is served."""

import numpy as np
import pytest

import tether
from tether.control import PolicyPath
from tether.control.path_weight import largest_weights


def test_draws_of_policies_beyond_the_next_one_do_not_count():
    table = [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    path = PolicyPath("token_clip", [0.0, 1.0, 2.0], table, drawn_at=[0.0, 1.5, np.inf])
    weight = largest_weights(tether.Proposals([0.0] * 3, [0.0, 1.0, 9.0], policy_path=path))
    assert weight.log_weights.tolist() == [0.0, 2.0, 6.0, 9.0]
    assert [weight.log_weight(None, b) for b in (-np.inf, 0.5, 1.0, 7.0, np.inf)] == [
        *(0.0, 0.0, 2.0, 6.0, 9.0)
    ]


def test_weights_are_against_the_mixture():
    path = PolicyPath("token_clip", [0.0], [[-2.0], [-1.0]], drawn_at=[0.0, np.inf])
    drawn = tether.Proposals([-3.0, -3.0], [-3.0, -3.0], log_mix=[-2.5, -1.0], policy_path=path)
    assert largest_weights(drawn).log_weights.tolist() == [0.5, -0.5]


def test_draws_that_stop_before_the_end_of_the_path_are_refused():
    path = PolicyPath("token_clip", [0.0, 1.0], [[0.0, 0.0]], drawn_at=[1.0])
    with pytest.raises(ValueError, match=r"drawn_at.*no draw of the optimized policy.*1\b"):
        largest_weights(tether.Proposals([0.0], [0.0], policy_path=path))


def test_a_draw_outside_the_mixture_is_refused():
    path = PolicyPath("token_mix", [0.0], [[-2.0]], drawn_at=[np.inf])
    drawn = tether.Proposals([-np.inf], [-1.0], policy_path=path)
    with pytest.raises(ValueError, match="absolute continuity"):
        largest_weights(drawn)
