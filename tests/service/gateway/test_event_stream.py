"""Server-sent events, cut where they end."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from tether.service.gateway.event_stream import (
    WholeEvents,
    error_event,
    first_data,
    has_end,
    has_error,
)

LINES = st.sampled_from([b"data: {}", b"data:x", b": ping", b"event: a", b"id", b"data: \xc3"])


@given(st.data())
def test_however_a_stream_is_cut_whole_events_come_out_and_no_byte_is_lost(data):
    line_end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    events = data.draw(st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=5))
    left = data.draw(st.sampled_from([b"", b"data: {", b"data: [DONE]" + line_end]))
    stream = b"".join(line_end.join(each) + 2 * line_end for each in events)
    ends = {0, *(found.end() for found in re.finditer(re.escape(2 * line_end), stream))}
    stream += left
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=8).map(sorted))
    cutter, sent = WholeEvents(), b""
    for begin, end in zip([0, *places], [*places, len(stream)], strict=True):
        sent += cutter.take(stream[begin:end])
        assert len(sent) == max(each for each in ends if each <= end)  # as much as there is
    assert len(cutter) == len(left)
    assert (sent, cutter.end(), len(cutter)) == (stream[: len(sent)], left, 0)


def test_the_first_data_is_found_after_comments():
    assert first_data(b": ping\n\n") is None
    assert first_data(b": ping\n\nevent: a\r\ndata: x\r\n\r\ndata: y\n\n") == b"x"
    assert first_data(b"data:\n\n") == b""
    assert first_data(b"xdata: y\n\n") is None


def test_the_end_of_an_answer_is_seen():
    assert has_end(b"data: {}\n\ndata: [DONE]\n\n")
    assert has_end(b'data: {"choices": [{"finish_reason" : "length"}]}\n\n')
    assert not has_end(b'data: {"choices": [{"finish_reason": null}]}\n\n')
    text = {"delta": {"content": 'data: [DONE] "finish_reason": "stop"'}}
    assert not has_end(b"data: " + json.dumps({"choices": [text]}).encode() + b"\n\n")


def test_errors_amid_a_stream_are_seen():
    made = error_event({"error": {"message": "no"}})
    assert json.loads(first_data(made)) == {"error": {"message": "no"}}
    assert has_error(made)
    assert has_error(b'data: {}\n\ndata:{ "error" : "no"}\n\n')
    assert has_error(b'data: {"id": "1", "choices": [], "error": {"code": 502}}\r\n\r\n')
    assert not has_error(b'data: {"error": null, "choices": []}\n\n')
    assert not has_error(
        b'data: {"choices": [{"delta": {"content": "data: {\\"error\\": 1"}}]}\n\n'
    )
