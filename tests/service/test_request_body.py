"""Bodies of requests, and requests of any content: an error, never a traceback."""

import json
import socket
from functools import partial

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.service.access.test_access_control import REQUESTS, ask
from tests.service.running import running, settings
from tether.service.api_errors import ApiError
from tether.service.request_body import parse_object

PATHS = [*(path for _, path in REQUESTS), "/ofrep/v1/evaluate/flags/%ff"]
WORDS = st.sampled_from(
    ["key", "keys", "context", "targetingKey", "outcomes", "losses", "complaint", "system", "old",
     "reason", "step", "keep_first", "new", "\ud800", "\0", ""]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
quick = partial(
    examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"NaN", b'{"a": Infinity}', b"\xff\xfe", b"1" * 5_000, b"3", b"[]"],
)
def test_what_is_no_json_object_is_refused(content):
    with pytest.raises(ApiError) as found:
        parse_object(content)
    assert found.value.status == 400


@pytest.mark.parametrize(
    "content", [b'{"key": "a", "key": "b"}', b'{"losses": {"key": 1, "key": 0}}', b'[{"key":1}]']
)
def test_a_name_that_is_there_twice_is_refused_where_it_is_read(content):
    said = "must be a JSON object" if content.startswith(b"[") else "has 'key' more than once"
    with pytest.raises(ApiError, match=said):
        parse_object(content)
    if content.startswith(b"{"):
        assert parse_object(content, forwarded=True)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    with running(settings(tmp_path_factory.mktemp("fuzz") / "release.db")) as client:
        yield client
        assert client.get("/healthz").status_code == 200


@quick(max_examples=100)
@given(path=st.sampled_from(PATHS), body=VALUES, method=st.sampled_from(["POST", "POST", "GET"]))
def test_any_json_has_an_answer(fuzzed, caplog, path, body, method):
    content = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    found = ask(fuzzed, method, path, content=content, headers=headers)
    assert found.status_code in (200, 400, 404, 405, 409, 412, 413)
    assert not [each for each in caplog.records if each.exc_info]


@quick(max_examples=50)
@given(path=st.sampled_from(PATHS), body=st.binary(max_size=300), host=st.text(max_size=20))
def test_any_bytes_have_an_answer(fuzzed, caplog, path, body, host):
    headers = {"Content-Type": "application/json", "If-None-Match": host.encode(errors="ignore")}
    headers["If-None-Match"] = headers["If-None-Match"].hex()
    found = fuzzed.post(path, content=body, headers=headers)
    assert found.status_code in (400, 404, 405)
    assert not [each for each in caplog.records if each.exc_info]


@quick(max_examples=40)
@given(line=st.binary(max_size=60), rest=st.binary(max_size=200))
def test_any_request_line_and_headers_do_no_harm(fuzzed, caplog, line, rest):
    address = fuzzed.base_url.host, fuzzed.base_url.port
    for begin in (line, b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\n" + line):
        with socket.create_connection(address, 20) as connection:
            connection.sendall(begin + b"\r\n" + rest + b"\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(20)
            while connection.recv(65_536):
                pass
    assert not [each for each in caplog.records if each.exc_info]


def test_of_two_losses_of_one_name_none_is_stored(fuzzed):
    assert fuzzed.post("/v1/decisions", json={"key": "one"}).status_code == 200
    sent = '{"key": "one", "system": "old", "losses": {"complaint": 1, "complaint": 0}}'
    answer = fuzzed.post("/v1/outcomes", content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "'complaint' more than once" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_named(name):
    content = f'{{"key": "ann", "system": "old", "losses": {{"complaint": {name}}}}}'
    with pytest.raises(ApiError, match=rf"JSON, which has no {name}: leave out .* such as a loss"):
        parse_object(content.encode())
