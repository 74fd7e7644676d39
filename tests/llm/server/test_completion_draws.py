"""Completions of one prompt in one request: as many as asked, of their own, in their places."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.fit import chi_square
from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import CausalPolicy
from tether.llm.server.chat_usage import counting_usage

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [5, 7, 9, -1], [6, 6, 6, 6], [5, 7, 9, -1]])


@pytest.fixture(scope="module")
def models():
    return {"base": tiny_models.llama(scale=0.3)}


def test_draws_have_the_models_distribution_whatever_shares_a_request(models):
    with Loopback(models) as server:
        policy = remote_policy(server, max_new_tokens=1, max_n=50)
        drawn = policy.sample(np.tile([5, 7], (600, 1)), np.random.default_rng(0))
    every = np.arange(tiny_models.SIZE)[:, None]
    local = CausalPolicy(models["base"], None, max_new_tokens=1)
    probabilities = np.exp(local.log_prob(np.tile([5, 7], (len(every), 1)), every))
    assert chi_square(drawn[:, 0], probabilities) > 1e-4


@pytest.mark.parametrize("max_n", [1, 2, 64])
def test_each_draw_is_in_the_place_of_its_prompt(models, max_n):
    local = CausalPolicy(models["base"], None, max_new_tokens=5)
    with Loopback(models) as server, counting_usage() as usage:
        policy = remote_policy(server, max_n=max_n)
        actions, stated = policy.sample_scored(PROMPTS, np.random.default_rng(0))
        assert np.allclose(stated, local.log_prob(PROMPTS, actions), atol=1e-5)
        assert usage.draws == len(PROMPTS)
        assert len(server.requests) == {1: 5, 2: 4, 64: 3}[max_n]


def test_a_server_that_ignores_n_is_asked_for_each_completion(models):
    with Loopback(models, ignores_n=True) as server:
        policy = remote_policy(server)
        actions = policy.sample(np.tile([5, 7], (6, 1)), np.random.default_rng(0))
        assert [body["n"] for body in server.requests] == [6, 1, 1, 1, 1, 1]
        assert len({body["seed"] for body in server.requests}) == 6
        assert len(np.unique(actions, axis=0)) > 3
        policy.sample(np.tile([5, 7], (3, 1)), np.random.default_rng(1))
        assert [body["n"] for body in server.requests[6:]] == [1, 1, 1], "it is not asked again"


def test_a_server_with_one_seed_for_all_completions_is_refused(models):
    prompts = np.tile([5, 7], (8, 1))
    with Loopback(models, one_seed=True) as server:
        with pytest.raises(ValueError, match=r"8 equal completions.*max_n=1"):
            remote_policy(server).sample(prompts, np.random.default_rng(0))
        alone = remote_policy(server, max_n=1).sample(prompts, np.random.default_rng(0))
    assert len(np.unique(alone, axis=0)) > 3


def test_equal_completions_that_are_likely_pass():
    """A model that is almost sure of its first token, which ends a completion."""
    sure = tiny_models.llama(4, scale=0.01)
    sure.lm_head.weight.data[:] = 0
    sure.lm_head.weight.data[0] = 100.0
    prompt = next(k for k in range(1, 4) if _log_end(sure, k) > -1e-3)
    with Loopback({"base": sure}) as server:
        actions = remote_policy(server).sample([[prompt]] * 9, np.random.default_rng(0))
    assert (actions[:, 0] == 0).all()


def _log_end(model, token):
    return tiny_models.one_by_one(model, [token], [0])


@pytest.mark.parametrize("change", [lambda a: a["choices"].pop(), lambda a: a.update(choices=[])])
def test_another_number_of_completions_is_an_error(models, change):
    with Loopback(models) as server:
        server.faults = [change]
        with pytest.raises(ValueError, match=r"choice\(s\) for 3"):
            remote_policy(server).sample([[5, 7]] * 3, np.random.default_rng(0))
