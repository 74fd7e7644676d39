"""Models on a server, over real connections to a server on loopback."""

import asyncio
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

pytest.importorskip("openai", reason="needs tether[api]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.chat_server import ChatServer, asked
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import (
    CausalPolicy,
    ChatPolicy,
    OpenAIPolicy,
    ServerError,
    chat_action,
    chat_context,
    chat_rows,
    read_answer,
)
from tether.llm.client import answering

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])
RNG = np.random.default_rng


@pytest.fixture(scope="module")
def models():
    return {"base": tiny_models.llama(scale=0.3), "tuned": tiny_models.llama(scale=0.3, seed=1)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


def letters(request, rng):
    return "abc"[rng.choice(3, p=[0.5, 0.3, 0.2])]


def contents(actions):
    return [read_answer(each)["message"]["content"] for each in np.ravel(actions)]


def test_scores_and_tables_are_those_of_the_model(server, models):
    policy, local = remote_policy(server), CausalPolicy(models["base"], None, max_new_tokens=5)
    prompts = np.repeat(PROMPTS, 5, axis=0)
    actions, stated = policy.sample_scored(prompts, RNG(0))
    exact = local.log_prob(prompts, actions)
    assert np.allclose(stated, exact, atol=1e-5)
    assert np.allclose(policy.log_prob(prompts, actions), exact, atol=1e-5)
    best = [each.log_probs[0] for each in policy.likely_tokens(prompts, actions)]
    assert len(best) == (actions >= 0).sum()
    assert sum(best) >= exact.sum() - 1e-5


DEFAULTS = {"top_k": 2, "temperature": 0.2, "watermarking": True}
"""Of a server: a request overrules them."""


@pytest.mark.parametrize("options", [{}, {"max_n": 7}, {"ignores_n": True}])
def test_every_request_has_a_seed_of_its_own_and_no_draw_is_another_one(models, options):
    with Loopback(models, defaults=DEFAULTS, ignores_n="ignores_n" in options) as server:
        policy = remote_policy(server, max_n=options.get("max_n", 64))
        prompts, rng = np.tile([4, 5], (40, 1)), RNG(0)
        first, second = policy.sample(prompts, rng), policy.sample(prompts, rng)
        seeds = [body["seed"] for body in server.requests]
        assert len(set(seeds)) == len(seeds)
        assert len(np.unique(first, axis=0)) > 20
        assert len(np.unique(first[:, 0])) > 10
        assert not np.array_equal(first, second)
        again = remote_policy(server, max_n=options.get("max_n", 64)).sample(prompts, RNG(0))
        assert np.array_equal(first, again)


@pytest.mark.parametrize("fault", ["drop", "half", 503, 429, "zipped"])
def test_a_request_that_fails_is_sent_again_unchanged(server, fault):
    first = remote_policy(server).sample(PROMPTS, RNG(0))
    server.faults = [fault]
    assert np.array_equal(remote_policy(server).sample(PROMPTS, RNG(0)), first)


def test_what_cannot_be_helped_is_an_error(server, models):
    policy = remote_policy(server, retries=0)
    for fault in (503, "drop", "garbled", "nonsense"):
        server.faults = [fault] * 40  # abandoned requests may take some of them
        with pytest.raises(ServerError, match="v1"):
            policy.sample(PROMPTS, RNG(0))
    server.faults = []
    with pytest.raises(ValueError, match="maximum context length"):
        policy.sample([[4] * 60], RNG(0))
    with pytest.raises(ServerError, match="does not exist"):
        remote_policy(server, "absent").sample(PROMPTS, RNG(0))
    with Loopback(models, key="secret-key") as closed:
        with pytest.raises(ServerError) as raised:
            remote_policy(closed, api_key="wrong-key").sample(PROMPTS, RNG(0))
        assert "wrong-key" not in str(raised.value)
        assert len(remote_policy(closed, api_key=" secret-key\n").sample(PROMPTS, RNG(0))) == 4


WRONG_DRAWS = (
    lambda each: each.update(token_ids=None),
    lambda each: each.update(token_ids=["7"]),
    lambda each: each.update(index=5),
    lambda each: each.update(finish_reason="abort"),
    lambda each: each.update(prompt_token_ids=[1, 2]),
    lambda each: each.update(token_ids=[9], finish_reason="stop"),
    lambda each: each["logprobs"].update(token_logprobs=[3.0] * len(each["token_ids"])),
)
WRONG_SCORES = (
    lambda each: each.update(prompt_logprobs=None),
    lambda each: each["prompt_logprobs"].pop(),
    lambda each: each["prompt_logprobs"].__setitem__(2, {"999": {"logprob": -1.0}}),
    lambda each: each["prompt_logprobs"][2].update({"9": {"logprob": "-1"}}),
)


@pytest.mark.parametrize("change", WRONG_DRAWS + WRONG_SCORES)
def test_a_response_about_other_tokens_is_an_error(server, change):
    policy = remote_policy(server)
    server.faults = [lambda answer: change(answer["choices"][0])]
    asked = PROMPTS[:1], RNG(0)
    if change in WRONG_SCORES:
        asked = [[5, 7]], [[9, 0, -1, -1, -1]]
    with pytest.raises(ValueError, match="server"):
        (policy.sample if change in WRONG_DRAWS else policy.log_prob)(*asked)


def test_another_model_under_the_same_name_is_noticed(server, models):
    policy = remote_policy(server, probe_seconds=0.0)
    actions = policy.sample(PROMPTS, RNG(0))
    server.models = {"base": models["tuned"]}
    for use in (lambda: policy.log_prob(PROMPTS, actions), lambda: policy.sample(PROMPTS, RNG(0))):
        with pytest.raises(ValueError, match="no longer serves the model that was 'base'"):
            use()


def test_a_wait_ends_with_the_program_and_a_policy_is_pickled_and_used_in_a_loop(server):
    policy, event, held = remote_policy(server), threading.Event(), threading.Event()
    server.faults = [held]
    event.set()
    with answering(event), pytest.raises(ServerError, match="was abandoned"):
        policy.sample(PROMPTS[:1], RNG(0))
    held.set()
    copied = pickle.loads(pickle.dumps(policy))

    async def in_a_notebook():
        return copied.sample(PROMPTS, RNG(0))

    assert np.array_equal(asyncio.run(in_a_notebook()), policy.sample(PROMPTS, RNG(0)))


def test_wrong_arguments():
    good = {"base_url": "http://localhost:1/v1", "model": "base", "eos_token_id": 0}
    for argument, value in (
        ("base_url", "localhost"),
        ("base_url", "http://me:secret@localhost/v1"),
        ("base_url", "http://localhost/v1?key=secret"),
        *(("eos_token_id", None), ("max_new_tokens", 0), ("timeout", 0)),
        ("api_key", "secret ä"),
    ):
        with pytest.raises(ValueError, match=argument) as raised:
            OpenAIPolicy(**{**good, argument: value})
        assert "secret" not in str(raised.value)


def test_chat_draws_of_a_context_share_a_request_and_have_the_servers_distribution():
    with ChatServer(letters) as server:
        policy = ChatPolicy(server.url, "small", settings={"temperature": 0.7})
        contexts = np.array([asked("x", temperature=0.2)] * 2000 + [asked("y")] * 3)
        with answering(threading.Event()) as usage:
            drawn = policy.sample(contexts, RNG(0))
        sent = sorted((each["n"], each["temperature"]) for each in server.requests)
        assert sent == [(3, 0.7), (2000, 0.2)]  # the context's own, where it has one
        assert set(server.paths) == {"/v1/chat/completions"}
    assert (usage["draws"], usage["total_tokens"]) == (2003, 20 + 3 * 2003)
    shares = [contents(drawn[:2000]).count(each) / 2000 for each in "abc"]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=4 * 0.5 / np.sqrt(2000))


@pytest.mark.parametrize(("knows_n", "max_n"), [(True, 4), (True, 1), (False, None), (False, 4)])
def test_a_chat_server_that_does_not_know_n_is_asked_more_often(knows_n, max_n):
    drawn_texts = iter(map(str, range(100)))
    with ChatServer(lambda request, rng: next(drawn_texts), knows_n=knows_n) as server:
        policy = ChatPolicy(server.url, "small", max_n=max_n)
        for _ in range(2):
            drawn = policy.sample(np.array([asked("x")] * 10), RNG(0))
            assert len(set(contents(drawn))) == 10  # every draw is used, none twice
        assert 100 - len(list(drawn_texts)) == 20  # and none is left out


def test_chat_failures_are_errors_and_nothing_is_left_out():
    contexts = np.array([asked("x")] * 4)
    with ChatServer(letters) as server:
        policy = ChatPolicy(server.url, "small", retries=1)
        for fault, error in (
            (400, ValueError),
            (lambda answer: answer["choices"].pop(), ServerError),
            (lambda a: a["choices"][2].update(finish_reason="abort"), ServerError),
            (lambda a: a["choices"][2].update(message="hidden"), ServerError),
        ):
            server.faults = [fault]
            with pytest.raises(error) as raised:
                policy.sample(contexts, RNG(0))
            assert "hidden" not in str(raised.value)
        server.faults = ["drop"]
        assert len(policy.sample(contexts, RNG(0))) == 4  # tried again
        for wrong in (np.array(["x"]), 3):
            with pytest.raises((TypeError, ValueError), match="context"):
                policy.sample(wrong, RNG(0))
        with pytest.raises(ValueError, match="no model"):
            ChatPolicy(server.url).sample(contexts, RNG(0))


def test_what_tells_chat_policies_apart_and_what_is_an_action():
    first = ChatPolicy("http://localhost:1/v1", "a", api_key="secret")
    assert first.fingerprint == ChatPolicy("http://localhost:2/v1", "a").fingerprint
    hot = ChatPolicy("http://localhost:1/v1", "a", settings={"temperature": 2})
    assert len({first.fingerprint, hot.fingerprint, ChatPolicy("http://x", "b").fingerprint}) == 3
    assert "secret" not in repr(first)
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"message": message, "finish_reason": "tool_calls"}
    assert read_answer(chat_action(answer)) == answer
    for wrong in (3, {"message": message}, {"message": {"role": "user"}, "finish_reason": "stop"}):
        with pytest.raises(ValueError, match="answer"):
            chat_action(wrong)
    for wrong in ({}, {"messages": []}, {"messages": ["a"], "n": 2}):
        with pytest.raises(ValueError, match="context"):
            chat_context(wrong)
    for wrong in ((["a", "b"], ["c"]), ([3], ["a"])):
        with pytest.raises((TypeError, ValueError)):
            chat_rows(*wrong)


def test_nothing_of_a_closed_api_needs_torch():
    """In a process of its own in which torch and transformers cannot be imported."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("torch", "transformers", "peft")))
import numpy as np, tether
from tether.llm import ChatPolicy, ChatScorer, OpenAIPolicy, ScoreServer, chat_context, preflight
policy = ChatPolicy("http://localhost:1/v1", "a", retries=0)
OpenAIPolicy("http://localhost:1/v1", "a", eos_token_id=0)
tether.Shortlist(policy, ChatScorer(lambda m, a: [0.0] * len(a)), size=2)
try:
    tether.llm.CausalPolicy
except ModuleNotFoundError as error:
    assert "tether[llm]" in str(error), error
else:
    raise AssertionError("torch was found")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
