"""The test weight of a path: the heaviest draw of policies up to the one that is served."""

import numpy as np
import pytest

import tether
from tether.control import PolicyPath
from tether.control.path_weight import largest_weights


def test_draws_count_at_the_level_of_their_policy_and_above():
    table = [[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    path = PolicyPath("token_clip", [0.0, 1.0, 2.0], table, drawn_at=[0.0, 1.0, np.inf])
    weight = largest_weights(tether.Proposals([0.0] * 3, [0.0, 1.0, 9.0], policy_path=path))
    assert weight.log_betas.tolist() == [0.0, 1.0, np.inf]
    assert weight.log_weights.tolist() == [0.0, 2.0, 9.0]
    assert [weight.log_weight(None, b) for b in (-np.inf, 0.5, 1.0, np.inf)] == [0.0, 0.0, 2.0, 9.0]


def test_a_beta_without_draws_of_its_own_is_not_chosen():
    rows, draws = np.zeros((200, 3)), np.zeros((2, 3))
    log = tether.Log(
        np.zeros(200),
        np.zeros(200),
        np.zeros(200),
        policy_path=PolicyPath("token_clip", [0.0, 1.0, 2.0], rows),
    )
    for drawn_at, largest in (([0.0, 1.0], 1.0), ([0.0, 2.0], 2.0), ([0.0, 1.5], 0.0)):
        path = PolicyPath("token_clip", [0.0, 1.0, 2.0], draws, drawn_at=drawn_at)
        proposals = tether.Proposals([0.0, 0.0], [0.0, 0.0], policy_path=path)
        found = tether.calibrate(log, proposals, alpha=0.1, family="token_clip")
        assert found.log_beta == largest
        assert set(found.curve().log_beta) <= set(drawn_at)


def test_weights_are_against_the_mixture():
    path = PolicyPath("token_clip", [0.0], [[-2.0], [-1.0]], drawn_at=[0.0, np.inf])
    drawn = tether.Proposals([-3.0, -3.0], [-3.0, -3.0], log_mix=[-2.5, -1.0], policy_path=path)
    assert largest_weights(drawn).log_weights.tolist() == [0.5, -0.5]


def test_draws_of_other_policies_alone_are_refused():
    path = PolicyPath("token_clip", [0.0, 1.0], [[0.0, 0.0]], drawn_at=[0.5])
    with pytest.raises(ValueError, match=r"drawn_at.*none of the log betas.*got 0\.5"):
        largest_weights(tether.Proposals([0.0], [0.0], policy_path=path))


def test_a_draw_outside_the_mixture_is_refused():
    path = PolicyPath("token_mix", [0.0], [[-2.0]], drawn_at=[np.inf])
    drawn = tether.Proposals([-np.inf], [-1.0], policy_path=path)
    with pytest.raises(ValueError, match="absolute continuity"):
        largest_weights(drawn)
