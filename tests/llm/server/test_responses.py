"""Responses of a server: right values or an error, nothing in between."""

import numpy as np
import pytest

pytest.importorskip("httpx2", reason="needs tether[llm]")
pytest.importorskip("transformers", reason="needs tether[llm]")

from tests.llm import tiny_models
from tests.llm.loopback_server import Loopback, remote_policy
from tether.llm import CausalPolicy
from tether.llm.server.server_error import ServerError


@pytest.fixture(scope="module")
def models():
    return {"base": tiny_models.llama(scale=0.3), "tuned": tiny_models.llama(scale=0.3, seed=1)}


@pytest.fixture
def server(models):
    with Loopback(models) as running:
        yield running


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
    "of other token ids than were sent": change("prompt_logprobs", other_ids),
    "read other token ids than were sent": change("prompt_token_ids", lambda each: [1, *each]),
    r"3 choice\(s\) for 1": lambda answer: answer["choices"].extend(answer["choices"] * 2),
    "returned list, not an object": "nonsense",
}


@pytest.mark.parametrize("message", SCORE_FAULTS)
def test_malformed_scores_are_errors(server, message):
    policy = remote_policy(server, batch_size=1, concurrency=1)
    actions = np.array([[3, 4, 0, -1, -1]])
    assert np.isfinite(policy.log_prob([[4, 5]], actions)).all()
    server.faults = [SCORE_FAULTS[message]]
    with pytest.raises((ValueError, ServerError), match=message):
        policy.log_prob([[4, 5]], actions)


def test_choices_in_any_order_and_with_additional_tokens(server, models):
    """Scores go by the index of a choice, and by the token that was asked in an entry."""
    policy, local = (
        remote_policy(server, batch_size=3),
        CausalPolicy(models["base"], None, max_new_tokens=5),
    )
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
def test_stated_log_probabilities_are_complete_or_nan(server, logprobs, expected):
    fault = change("logprobs", lambda each: logprobs)

    def five(answer):
        change("token_ids", lambda each: [7] * 5)(answer)
        fault(answer)

    server.faults = [five]
    actions, stated = remote_policy(server).sample_scored([[4, 5]], np.random.default_rng(0))
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
    "max_new_tokens in the model's generation_config": change("token_ids", lambda each: [7]),
    "stop tokens or stop texts of its own": lambda answer: answer["choices"][0].update(
        token_ids=[7], finish_reason="stop"
    ),
    "read other token ids than were sent": change("prompt_token_ids", lambda each: each[1:]),
    "finish_reason 'abort'": change("finish_reason", lambda each: "abort"),
    "returned 9 tokens": change("token_ids", lambda each: [7] * 9),
    "nothing after the end-of-sequence token": change("token_ids", lambda each: [0, 7, 7, 7, 7]),
}


@pytest.mark.parametrize("message", SAMPLE_FAULTS)
def test_malformed_draws_are_errors(server, message):
    server.faults = [SAMPLE_FAULTS[message]]
    with pytest.raises(ValueError, match=message):
        remote_policy(server).sample([[4, 5]], np.random.default_rng(0))
