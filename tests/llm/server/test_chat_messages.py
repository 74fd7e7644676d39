"""Requests as contexts, answers as actions."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.llm import chat_action, chat_context, read_answer
from tether.llm.server.chat_messages import (
    UnreadableAnswerError,
    action_of_choice,
    canonical_json,
    message_of,
    messages_of,
    read_context,
)

MESSAGES = [{"role": "user", "content": "Hi"}]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abcde"), JSON))
def test_equal_requests_are_equal_contexts_and_nothing_is_lost(extra):
    request = {"messages": MESSAGES, **extra}
    context = chat_context(request)
    assert chat_context(dict(reversed(request.items()))) == context
    assert read_context(context) == json.loads(json.dumps(request))
    assert messages_of(context) == MESSAGES


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": []},
        {"messages": "Hi"},
        {"prompt": ["Hi"]},
        {"messages": MESSAGES, "prompt": "Hi"},
        {"messages": MESSAGES, "n": 2},
        {"messages": MESSAGES, "stream": True},
        {"messages": MESSAGES, "seed": 1},
        {"messages": MESSAGES, "logprobs": True},
        {"messages": MESSAGES, "temperature": float("nan")},
        {"messages": MESSAGES, "temperature": {1, 2}},
        {"messages": [{"role": "user", "content": "\ud800"}]},
    ],
)
def test_what_is_no_context_is_refused(request_):
    with pytest.raises(ValueError, match=r"context|messages|prompt|no JSON"):
        chat_context(request_)


def test_a_context_in_another_form_is_refused():
    with pytest.raises(ValueError, match="chat_context makes"):
        read_context('{"messages": [{"role": "user", "content": "Hi"}]}')
    with pytest.raises(ValueError, match="chat_context makes, a JSON object"):
        read_context("Hi")


def test_answers_keep_their_tool_calls():
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls, "refusal": None}
    action = action_of_choice({"message": message, "finish_reason": "tool_calls"}, is_chat=True)
    assert read_answer(action)["finish_reason"] == "tool_calls"
    assert message_of(action) == {"role": "assistant", "content": None, "tool_calls": calls}
    action = action_of_choice({"text": "b", "finish_reason": "length"}, is_chat=False)
    assert message_of(action) == {"role": "assistant", "content": "b"}
    assert messages_of(chat_context({"prompt": "a"})) == [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    "choice",
    [
        None,
        {},
        {"message": {"content": "a"}},
        {"message": {"content": "a"}, "finish_reason": "abort"},
        {"message": None, "finish_reason": "stop"},
        {"message": {"role": "user", "content": "a"}, "finish_reason": "stop"},
        {"message": {"content": 3}, "finish_reason": "stop"},
        {"message": {"content": "\ud800"}, "text": "\ud800", "finish_reason": "stop"},
        {"message": {"content": None, "tool_calls": "f"}, "finish_reason": "stop"},
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error(choice):
    with pytest.raises(UnreadableAnswerError):
        action_of_choice(choice, is_chat=True)
    with pytest.raises(UnreadableAnswerError):
        action_of_choice(choice, is_chat=False)


def test_canonical_json_has_one_form():
    assert canonical_json({"b": 1, "a": "ü"}) == '{"a":"ü","b":1}'


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_text_becomes_the_action_that_a_policy_would_have_drawn(text):
    message = {"role": "assistant", "content": text, "refusal": None}
    drawn = action_of_choice({"finish_reason": "stop", "message": message}, is_chat=True)
    assert chat_action(text) == drawn
    assert message_of(chat_action(text))["content"] == text


@pytest.mark.parametrize(
    "action",
    [
        '{"finish_reason":"length","message":{"content":"It arr","role":"assistant"}}',
        '{"finish_reason":"stop","text":"It arrives today."}',
        '{"finish_reason":"tool_calls","message":{"content":null,"role":"assistant",'
        '"tool_calls":[{"id":"a"}]}}',
    ],
)
def test_an_answer_that_was_read_becomes_the_same_action(action):
    assert chat_action(read_answer(action)) == action


@pytest.mark.parametrize("answer", [None, 3, {}, {"message": {"content": "Hi"}}, {"text": 1}])
def test_what_is_no_answer_becomes_no_action(answer):
    with pytest.raises(ValueError, match=r"answer must be a text|this is no answer"):
        chat_action(answer)


def test_a_plain_text_in_place_of_an_action_is_told_how_to_become_one():
    with pytest.raises(ValueError, match=r"what tether\.llm\.chat_action makes"):
        read_answer("It arrives today.")
