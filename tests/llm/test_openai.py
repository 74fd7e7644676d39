"""A policy over HTTP, against a real server on loopback: right numbers or an error, no third."""

import logging

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny
from tests.llm.loopback import Loopback
from tether.llm import CausalPolicy, OpenAIPolicy
from tether.llm.server import ServerError

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])
KEY = "sk-very-secret-0123456789"


@pytest.fixture(scope="module")
def models():
    return {"base": tiny.llama(scale=0.3), "tuned": tiny.llama(scale=0.3, seed=1)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


def asking(server, model="base", **options):
    options = {"eos_token_id": 0, "max_new_tokens": 5, "retries": 2, **options}
    policy = OpenAIPolicy(server.url, model, **options)
    policy.server.first_wait = 0.01
    return policy


@pytest.fixture
def drawn(server):
    return asking(server).sample(PROMPTS, np.random.default_rng(0))


def test_scores_are_those_of_the_model(server, models):
    policy, local = asking(server, batch=3), CausalPolicy(models["base"], None, max_new_tokens=5)
    prompts = np.repeat(PROMPTS, 5, axis=0)
    actions, stated = policy.sample_scored(prompts, np.random.default_rng(0))
    scores = policy.log_prob(prompts, actions)
    assert np.allclose(scores, local.log_prob(prompts, actions), atol=1e-5)
    assert np.allclose(scores, stated, atol=1e-5)
    theirs = local.sample(prompts, np.random.default_rng(0))
    assert np.allclose(policy.log_prob(prompts, theirs), local.log_prob(prompts, theirs), atol=1e-5)


def test_every_draw_has_a_seed_of_its_own(server):
    rng = np.random.default_rng(0)
    policy = asking(server)
    first, second = (policy.sample(np.tile([4, 5], (40, 1)), rng) for _ in range(2))
    seeds = [body["seed"] for body in server.requests]
    assert len(set(seeds)) == 80
    assert len(np.unique(first, axis=0)) > 20
    assert not np.array_equal(first, second)
    again = policy.sample(np.tile([4, 5], (40, 1)), np.random.default_rng(0))
    assert np.array_equal(first, again)


def test_defaults_of_the_server_are_overruled(models):
    """A server that cuts to the best two, unless it is told not to."""
    with Loopback(models, defaults={"top_k": 2, "temperature": 0.2}) as running:
        actions = asking(running).sample(np.tile([4, 5], (60, 1)), np.random.default_rng(0))
    assert len(np.unique(actions[:, 0])) > 10


def test_two_served_models_make_a_tether(server):
    safe, optimized = asking(server, "base"), asking(server, "tuned")
    policy = tether.Tethered(safe, optimized, 0.7)
    actions, info = policy.sample_with_info(PROMPTS[:2], np.random.default_rng(0))
    assert actions.shape == (2, 5)
    assert info.draws >= 2
    assert {body["model"] for body in server.requests} == {"base", "tuned"}


def test_so_many_requests_at_a_time(server):
    server.faults = ["slow"] * 6
    asking(server, concurrency=3).sample(np.tile([4, 5], (12, 1)), np.random.default_rng(0))
    assert 2 <= server.most_busy <= 3


@pytest.mark.parametrize("fault", ["drop", "half", "garbled", 500, 503, 429])
def test_a_request_that_fails_is_sent_again_the_same(server, fault):
    expected = asking(server).sample(PROMPTS, np.random.default_rng(0))
    server.requests.clear()
    server.faults = [fault, fault]
    found = asking(server, concurrency=1).sample(PROMPTS, np.random.default_rng(0))
    assert np.array_equal(found, expected)
    assert len(server.requests) == 6
    assert server.requests[0] == server.requests[1] == server.requests[2]


def test_a_server_that_dies_in_the_middle_is_an_error(server, drawn):
    policy = asking(server, concurrency=1, batch=1)
    server.faults = [None, *["half"] * 20]
    with pytest.raises(ServerError, match=r"completions failed 3 time\(s\), at last with"):
        policy.log_prob(PROMPTS, drawn)


def test_a_server_that_is_gone(models):
    with Loopback(models) as running:
        policy = asking(running)
    with pytest.raises(ServerError, match="ConnectError"):
        policy.sample(PROMPTS, np.random.default_rng(0))


def test_a_slow_server_runs_out_of_time(server):
    server.faults = ["slow"] * 9
    with pytest.raises(ServerError, match="ReadTimeout"):
        asking(server, timeout=0.05, retries=1).sample([[4]], np.random.default_rng(0))


def without(field):
    return lambda answer: [choice.pop(field) for choice in answer["choices"]]


def change(field, value):
    def fault(answer):
        for choice in answer["choices"]:
            choice[field] = value(choice[field])

    return fault


def other_ids(entries):
    return [None] + [{"55": next(iter(each.values()))} for each in entries[1:]]


SCORE_FAULTS = {
    "no log-probabilities": without("prompt_logprobs"),
    "8 log-probabilities for a text of": change("prompt_logprobs", lambda each: [None] * 8),
    "of other token ids than asked": change("prompt_logprobs", other_ids),
    "read other token ids than asked": change("prompt_token_ids", lambda each: [1, *each]),
    "returned nan as the log-prob": change(
        "prompt_logprobs",
        lambda each: [None, *({k: {"logprob": float("nan")} for k in e} for e in each[1:])],
    ),
    r"3 choice\(s\) for 1": lambda answer: answer["choices"].extend(answer["choices"] * 2),
    "answered list, no object": "nonsense",
}


@pytest.mark.parametrize("message", SCORE_FAULTS)
def test_a_wrong_score_is_never_a_number(server, message):
    policy = asking(server, batch=1, concurrency=1)
    actions = np.array([[3, 4, 0, -1, -1]])
    assert np.isfinite(policy.log_prob([[4, 5]], actions)).all()
    server.faults = [SCORE_FAULTS[message]]
    with pytest.raises((ValueError, ServerError), match=message):
        policy.log_prob([[4, 5]], actions)


SAMPLE_FAULTS = {
    "returned no token ids": without("token_ids"),
    "stops at tokens or texts of its own": change("token_ids", lambda each: [7]),
    "read other token ids than asked": change("prompt_token_ids", lambda each: each[1:]),
    "for the reason 'abort'": change("finish_reason", lambda each: "abort"),
    "returned 9 tokens": change("token_ids", lambda each: [7] * 9),
    "nothing after the end-of-sequence token": change("token_ids", lambda each: [0, 7, 7, 7, 7]),
}


@pytest.mark.parametrize("message", SAMPLE_FAULTS)
def test_a_wrong_draw_is_never_an_action(server, message):
    server.faults = [SAMPLE_FAULTS[message]]
    with pytest.raises(ValueError, match=message):
        asking(server).sample([[4, 5]], np.random.default_rng(0))


def test_a_prompt_that_is_too_long(server):
    with pytest.raises(ValueError, match="maximum context length is 64"):
        asking(server).sample([[4] * 60], np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"contexts\[1\] has 59 tokens, and at most 58"):
        asking(server, context_length=64).sample(
            np.array([[4] + [-1] * 58, [4] * 59]), np.random.default_rng(0)
        )


def test_the_key_is_sent_and_never_told(models, caplog, capsys):
    with Loopback(models, key=KEY) as running, caplog.at_level(logging.DEBUG):
        policy = asking(running, api_key=KEY)
        policy.sample(PROMPTS, np.random.default_rng(0))
        assert running.headers[0]["Authorization"] == f"Bearer {KEY}"
        running.key = "another"  # the server repeats what it was sent in its refusal
        with pytest.raises(ValueError, match="status 401") as told:
            policy.sample(PROMPTS, np.random.default_rng(0))
    printed = capsys.readouterr()
    everything = [str(told.value), repr(policy), repr(policy.server), caplog.text, *printed]
    assert not any(KEY in text for text in everything)
    assert "(key)" in str(told.value)


def test_bad_arguments():
    good = {"base_url": "http://localhost:1/v1", "model": "base", "eos_token_id": 0}
    for change, message in (
        ({"temperature": 0.7}, "temperature must be 1.0, got 0.7"),
        ({"base_url": "localhost"}, "base_url must be an address"),
        ({"base_url": "http://me:secret@localhost/v1"}, "no user name or password"),
        ({"eos_token_id": None}, "no end-of-sequence token"),
        ({"max_new_tokens": 0}, "max_new_tokens must be a whole number of at least 1, got 0"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"timeout": 0}, "timeout must be"),
    ):
        with pytest.raises(ValueError, match=message) as told:
            OpenAIPolicy(**{**good, **change})
        assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="is a text, and there is no tokenizer"):
        OpenAIPolicy(**good).sample(["hello"], np.random.default_rng(0))
