"""A policy over HTTP, against a real server on loopback: right numbers or an error, no third."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

import tether
from tests.llm import tiny
from tests.llm.loopback import Loopback, asking
from tether.llm import CausalPolicy, OpenAIPolicy
from tether.llm.server.http_client import ServerError

PROMPTS = np.array([[5, 7, 9, -1], [4, -1, -1, -1], [6, 6, 6, 6], [5, 7, 9, -1]])


@pytest.fixture(scope="module")
def models():
    return {"base": tiny.llama(scale=0.3), "tuned": tiny.llama(scale=0.3, seed=1)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


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
    """A server that cuts to the best two and marks its texts, unless it is told not to."""
    defaults = {"top_k": 2, "temperature": 0.2, "watermarking": True}
    with Loopback(models, defaults=defaults) as running:
        actions = asking(running).sample(np.tile([4, 5], (60, 1)), np.random.default_rng(0))
    assert len(np.unique(actions[:, 0])) > 10


def test_two_served_models_make_a_tether(server):
    safe, optimized = asking(server, "base"), asking(server, "tuned")
    policy = tether.Tethered(safe, optimized, 0.7)
    actions, info = policy.sample_with_info(PROMPTS[:2], np.random.default_rng(0))
    assert actions.shape == (2, 5)
    assert info.draws >= 2
    assert {body["model"] for body in server.requests} == {"base", "tuned"}


def without(field):
    return lambda answer: [choice.pop(field) for choice in answer["choices"]]


def change(field, value):
    def fault(answer):
        for choice in answer["choices"]:
            choice[field] = value(choice[field])

    return fault


def other_ids(entries):
    return [None] + [{"55": next(iter(each.values()))} for each in entries[1:]]


def numbered(place):
    return lambda answer: answer["choices"][0].update(index=place)


def scored(value):
    return change(
        "prompt_logprobs",
        lambda each: [
            None,
            *({token: {"logprob": value} for token in entry} for entry in each[1:]),
        ],
    )


SCORE_FAULTS = {
    "returned 'x' as a choice, not an object": lambda answer: answer.update(choices=["x"]),
    r"numbered its choices \[None\]": numbered(None),
    r"numbered its choices \[1\]": numbered(1),
    r"numbered its choices \[False\]": numbered(False),
    "returned 7 as prompt_token_ids, not a list": change("prompt_token_ids", lambda each: 7),
    "returned False as the log-prob": scored(False),
    "returned '-1.0' as the log-prob": scored("-1.0"),
    "returned 3.5 as the log-prob.*a logit": scored(3.5),
    "returned nan as the log-prob": scored(float("nan")),
    "no log-probabilities": without("prompt_logprobs"),
    "8 log-probabilities for a text of": change("prompt_logprobs", lambda each: [None] * 8),
    "of other token ids than asked": change("prompt_logprobs", other_ids),
    "read other token ids than asked": change("prompt_token_ids", lambda each: [1, *each]),
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


def test_choices_in_any_order_and_likelier_tokens_beside(server, models):
    """Scores go by the index of a choice, and by the token that was asked in an entry."""
    policy, local = asking(server, batch=3), CausalPolicy(models["base"], None, max_new_tokens=5)
    prompts, actions = [[4, 5], [6, 7], [8, 9]], np.array([[3, 4, 5, 6, 7]] * 3)

    def shuffled(answer):
        answer["choices"].reverse()
        for choice in answer["choices"]:
            del choice["prompt_token_ids"]
            best = {"logprob": -0.01, "rank": 1, "decoded_token": "?"}
            choice["prompt_logprobs"][1:] = [
                {"51": best, **entry} for entry in choice["prompt_logprobs"][1:]
            ]

    server.faults = [shuffled]
    assert np.allclose(policy.log_prob(prompts, actions), local.log_prob(prompts, actions), 0, 1e-5)


@pytest.mark.parametrize(
    ("logprobs", "expected"),
    [
        (None, np.nan),
        ({}, np.nan),
        ({"token_logprobs": [-1.0] * 4}, np.nan),
        ({"token_logprobs": [-1.0, None, -1.0, -1.0, -1.0]}, np.nan),
        ({"token_logprobs": [-1.0, -2, 0.0005, -1.0, -1.0]}, -5.0),
        ({"token_logprobs": [-1.0, -9999.0, -1.0, -1.0, -1.0]}, -np.inf),
    ],
)
def test_what_is_stated_of_a_draw_is_all_or_nothing(server, logprobs, expected):
    fault = change("logprobs", lambda each: logprobs)

    def five(answer):
        change("token_ids", lambda each: [7] * 5)(answer)
        fault(answer)

    server.faults = [five]
    actions, stated = asking(server).sample_scored([[4, 5]], np.random.default_rng(0))
    assert actions.tolist() == [[7] * 5]
    assert np.array_equal(stated, [expected], equal_nan=True)


SAMPLE_FAULTS = {
    "returned 7.9 as a token id": change("token_ids", lambda each: [7.9, 8, 9, 3, 4]),
    "returned '7' as a token id": change("token_ids", lambda each: ["7", 8, 9, 3, 4]),
    "returned True as a token id": change("token_ids", lambda each: [True, 8, 9, 3, 4]),
    "returned -1 as a token id": change("token_ids", lambda each: [-1, 8, 9, 3, 4]),
    "returned 1180591620717411303424 as a token id": change("token_ids", lambda each: [2**70] * 5),
    r"returned \[1\] as logprobs, not an object": change("logprobs", lambda each: [1]),
    "returned 'a' as token_logprobs, not a list": change(
        "logprobs", lambda each: {"token_logprobs": "a"}
    ),
    "returned 'a' as the log-probability of": change(
        "logprobs", lambda each: {"token_logprobs": ["a"] * len(each["tokens"])}
    ),
    "returned 0.5 as the log-probability of": change(
        "logprobs", lambda each: {"token_logprobs": [0.5] * len(each["tokens"])}
    ),
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


def test_texts_as_completions():
    options = {"base_url": "http://localhost/v1", "model": "base", "eos_token_id": 0}
    policy = OpenAIPolicy(**options, tokenizer=tiny.tokenizer(), max_new_tokens=4)
    assert policy.texts(policy.completions(["cat", ""])) == ["cat", ""]
    assert policy.completions(["cat", ""])[:, -1].tolist() == [0, -1]
    for ask in (lambda each: each.completions(["cat"]), lambda each: each.texts([[3, 4, 5, 0]])):
        with pytest.raises(ValueError, match="there is no tokenizer"):
            ask(OpenAIPolicy(**options, max_new_tokens=4))


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
