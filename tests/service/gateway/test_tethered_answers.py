"""A finished answer as one object and as a stream say the same."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tether.llm.server.chat_messages import canonical_json
from tether.service.gateway.tethered_answers import FinishedAnswer

CALLS = st.lists(
    st.fixed_dictionaries({"id": st.text(max_size=3), "type": st.just("function")}), max_size=3
)


@settings(max_examples=50)
@given(st.none() | st.text(), CALLS, st.sampled_from(["stop", "length"]), st.booleans())
def test_the_parts_of_a_stream_are_the_message(content, calls, reason, with_usage):
    message = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    action = canonical_json({"finish_reason": reason, "message": message})
    answer = FinishedAnswer("7", "small", action, {"total_tokens": 5})
    whole = answer.whole()
    assert whole["choices"][0]["message"] == message
    events = b"".join(answer.events(with_usage=with_usage)).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(each.removeprefix("data: ")) for each in events[:-2]]
    assert {each["object"] for each in chunks} == {"chat.completion.chunk"}
    assert {each["id"] for each in chunks} == {"chatcmpl-tether-7"}
    text, found, reasons = "", [], []
    for chunk in chunks:
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            found += choice["delta"].get("tool_calls", [])
            reasons.append(choice["finish_reason"])
    assert text == (content or "")
    assert found == [{"index": k, **each} for k, each in enumerate(calls)]
    assert reasons == [None] * (len(reasons) - 1) + [reason]
    assert [each.get("usage") for each in chunks if "usage" in each] == (
        [{"total_tokens": 5}] if with_usage else []
    )


def test_a_text_is_one_event():
    action = canonical_json({"finish_reason": "stop", "text": "a"})
    answer = FinishedAnswer("7", "small", action, {})
    assert answer.whole()["object"] == "text_completion"
    assert b"".join(answer.events(with_usage=False)).count(b"data: ") == 2
