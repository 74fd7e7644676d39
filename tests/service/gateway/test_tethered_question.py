"""What of a request is its context."""

import json

import pytest

from tether.service.api_errors import ApiError
from tether.service.gateway.tethered_question import ChatAnswers

MESSAGES = [{"role": "user", "content": "Hi"}]


def test_the_context_is_what_decides_how_an_answer_is_drawn():
    body = {"messages": MESSAGES, "model": "large", "temperature": 0.5, "tools": []}
    beside = {"user": "ann", "seed": 3, "n": 1, "stream": True, "logprobs": False}
    made = ChatAnswers("small").question(body | beside, "messages")
    assert json.loads(made.context) == {"messages": MESSAGES, "temperature": 0.5, "tools": []}
    assert (made.model, made.is_streamed, made.with_usage) == ("small", True, False)
    own = ChatAnswers(None).question(body, "messages")
    assert json.loads(own.context)["model"] == "large"
    assert (own.model, own.is_streamed) == ("large", False)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": MESSAGES},
        {"prompt": "Hi", "model": "a"},
        {"messages": MESSAGES, "model": "a", "n": True},
        {"messages": MESSAGES, "model": "a", "best_of": 2},
        {"messages": MESSAGES, "model": "a", "top_logprobs": 2},
    ],
)
def test_other_requests_are_refused(body):
    with pytest.raises(ApiError):
        ChatAnswers(None).question(body, "messages")
