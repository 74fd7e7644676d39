"""A policy over HTTP, against a real server on loopback."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import CausalPolicy, OpenAIPolicy

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])


@pytest.fixture(scope="module")
def models():
    return {"base": tiny_models.llama(scale=0.3), "tuned": tiny_models.llama(scale=0.3, seed=1)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


def test_scores_are_those_of_the_model(server, models):
    policy, local = (
        remote_policy(server, batch_size=3),
        CausalPolicy(models["base"], None, max_new_tokens=5),
    )
    prompts = np.repeat(PROMPTS, 5, axis=0)
    actions, stated = policy.sample_scored(prompts, np.random.default_rng(0))
    scores = policy.log_prob(prompts, actions)
    assert np.allclose(scores, local.log_prob(prompts, actions), atol=1e-5)
    assert np.allclose(scores, stated, atol=1e-5)
    theirs = local.sample(prompts, np.random.default_rng(0))
    assert np.allclose(policy.log_prob(prompts, theirs), local.log_prob(prompts, theirs), atol=1e-5)


@pytest.mark.parametrize("max_n", [1, 7, 64])
def test_every_request_has_a_seed_of_its_own_and_no_draw_is_another_one(server, max_n):
    rng = np.random.default_rng(0)
    policy = remote_policy(server, max_n=max_n)
    first, second = (policy.sample(np.tile([4, 5], (40, 1)), rng) for _ in range(2))
    seeds = [body["seed"] for body in server.requests]
    assert len(set(seeds)) == len(seeds) == 2 * -(-40 // max_n)
    assert sum(body["n"] for body in server.requests) == 80
    assert len(np.unique(first, axis=0)) > 20
    assert not np.array_equal(first, second)
    again = policy.sample(np.tile([4, 5], (40, 1)), np.random.default_rng(0))
    assert np.array_equal(first, again)


def test_defaults_of_the_server_are_overruled(models):
    """A server that cuts to the best two and marks its texts, unless it is told not to."""
    defaults = {"top_k": 2, "temperature": 0.2, "watermarking": True}
    with Loopback(models, defaults=defaults) as running:
        actions = remote_policy(running).sample(np.tile([4, 5], (60, 1)), np.random.default_rng(0))
    assert len(np.unique(actions[:, 0])) > 10


def test_two_served_models_make_a_tether(server):
    safe, optimized = remote_policy(server, "base"), remote_policy(server, "tuned")
    policy = tether.Tethered(safe, optimized, 0.7)
    actions, info = policy.sample_with_info(PROMPTS[:2], np.random.default_rng(0))
    assert actions.shape == (2, 5)
    assert info.draws >= 2
    assert {body["model"] for body in server.requests} == {"base", "tuned"}


def test_a_prompt_that_is_too_long(server):
    with pytest.raises(ValueError, match="maximum context length is 64"):
        remote_policy(server).sample([[4] * 60], np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"contexts\[1\] has 59 tokens, and at most 58"):
        remote_policy(server, context_length=64).sample(
            np.array([[4] + [-1] * 58, [4] * 59]), np.random.default_rng(0)
        )


def test_texts_as_completions():
    options = {"base_url": "http://localhost/v1", "model": "base", "eos_token_id": 0}
    policy = OpenAIPolicy(**options, tokenizer=tiny_models.tokenizer(), max_new_tokens=4)
    assert policy.texts(policy.completions(["cat", ""])) == ["cat", ""]
    assert policy.completions(["cat", ""])[:, -1].tolist() == [0, -1]
    for ask in (lambda each: each.completions(["cat"]), lambda each: each.texts([[3, 4, 5, 0]])):
        with pytest.raises(ValueError, match="tokenizer is None"):
            ask(OpenAIPolicy(**options, max_new_tokens=4))


def test_bad_arguments():
    good = {"base_url": "http://localhost:1/v1", "model": "base", "eos_token_id": 0}
    for change, message in (
        ({"temperature": 0.7}, "temperature must be 1.0, got 0.7"),
        ({"base_url": "localhost"}, "base_url must be an address"),
        ({"base_url": "http://me:secret@localhost/v1"}, "no user name or password"),
        ({"eos_token_id": None}, "no end-of-sequence token"),
        ({"max_new_tokens": 0}, "max_new_tokens must be an integer of at least 1, got 0"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"timeout": 0}, "timeout must be"),
    ):
        with pytest.raises(ValueError, match=message) as raised:
            OpenAIPolicy(**{**good, **change})
        assert "secret" not in str(raised.value)
    with pytest.raises(ValueError, match="is a text but tokenizer is None"):
        OpenAIPolicy(**good).sample(["hello"], np.random.default_rng(0))
