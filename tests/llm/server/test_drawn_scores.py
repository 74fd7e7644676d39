"""What a policy drew is not scored again."""

import pickle

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm.server.drawn_scores import DrawnScores

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])


@pytest.fixture
def server():
    with Loopback({"base": tiny_models.llama(scale=0.3)}) as running:
        yield running


def test_draws_have_the_scores_that_came_with_them(server):
    policy, again = remote_policy(server), remote_policy(server, reuse_stated=False)
    drawn, stated = policy.sample_scored(PROMPTS, np.random.default_rng(0))
    server.requests.clear()
    assert np.array_equal(policy.log_prob(PROMPTS, drawn), stated)
    assert not server.requests
    expected = again.log_prob(PROMPTS, drawn)
    np.testing.assert_allclose(stated, expected, atol=1e-5)
    assert np.array_equal(policy.rescoring().log_prob(PROMPTS, drawn), expected)
    assert server.requests


def test_the_same_completion_of_another_prompt_is_scored(server):
    policy = remote_policy(server)
    drawn, _ = policy.sample_scored(PROMPTS, np.random.default_rng(0))
    other = PROMPTS[[1, 0, 0, 2]]
    server.requests.clear()
    expected = remote_policy(server, reuse_stated=False).log_prob(other, drawn)
    np.testing.assert_allclose(policy.log_prob(other, drawn), expected, atol=1e-5)


def test_a_boundary_between_prompt_and_completion_matters():
    """The same tokens, divided elsewhere, have another score."""
    scores = DrawnScores()
    scores.remember([((1, 2), (3,), -1.0), ((5,), (6,), float("nan"))])
    assert scores.find((1, 2), (3,)) == -1.0
    assert scores.find((1,), (2, 3)) is None
    assert scores.find((5,), (6,)) is None


def test_the_oldest_are_forgotten():
    scores = DrawnScores(most=2)
    scores.remember([((1,), (1,), -1.0), ((1,), (2,), -2.0), ((1,), (1,), -1.0)])
    scores.remember([((1,), (3,), -3.0)])
    assert [scores.find((1,), (k,)) for k in (1, 2, 3)] == [-1.0, None, -3.0]
    assert pickle.loads(pickle.dumps(scores)).find((1,), (1,)) is None
