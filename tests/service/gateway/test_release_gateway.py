"""The gateway between real upstreams, asked by OpenAI's own client."""

import json
from urllib.parse import unquote

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.gateway.gateways import gateway, gateway_settings, key_of, openai_client
from tests.service.gateway.upstreams import LONG
from tests.service.running import bearer, running
from tether.rounds import verify_store
from tether.service import ApiKeys, add_key

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def http(old, new, tmp_path_factory):
    store = tmp_path_factory.mktemp("gateway") / "release.db"
    with gateway(store, old.url, new.url) as client:
        yield client
    assert verify_store(store).ok


@pytest.fixture(autouse=True)
def usual(old, new):
    for each in (old, new):
        each.respond = each.answer
        each.closed.clear()
        for gate in each.gates:
            gate.clear()


@pytest.mark.parametrize("system", ["old", "new"])
def test_the_official_client_is_answered_by_the_system_of_its_key(http, system):
    client = openai_client(http)
    key = key_of(system)
    raw = client.chat.completions.with_raw_response.create(model="m", messages=HELLO, user=key)
    assert raw.parse().choices[0].message.content == system
    found = {name: raw.headers[f"x-tether-{name}"] for name in ("system", "served", "stored")}
    assert found == {"system": system, "served": system, "stored": "true"}
    assert unquote(raw.headers["x-tether-key"]) == key
    assert raw.headers["content-security-policy"].startswith("default-src 'none'")
    done = client.completions.create(model="m", prompt="hello", user=key)
    assert done.choices[0].text == system
    stream = client.chat.completions.create(model="m", messages=HELLO, stream=True, user=key)
    texts = [chunk.choices[0].delta.content for chunk in stream]
    assert texts == [f"{system} {number}" for number in range(3)]
    stream = client.completions.create(model="m", prompt="hello", stream=True, user=key)
    assert [chunk.choices[0].text for chunk in stream] == texts


def test_when_a_client_leaves_the_upstream_is_told(http, new):
    new.respond = new.gated
    new.gates[0].set()
    stream = openai_client(http).chat.completions.create(
        model="m", messages=HELLO, stream=True, user=key_of("new")
    )
    assert next(stream).choices[0].delta.content == "new 0"
    stream.close()
    assert new.closed.wait(LONG)


def test_a_stream_that_breaks_ends_with_an_error_that_the_client_raises(http, new):
    new.respond = new.broken
    new.gates[0].set()
    stream = openai_client(http).chat.completions.create(
        model="m", messages=HELLO, stream=True, user=key_of("new")
    )
    assert next(stream).choices[0].delta.content == "new 0"
    with pytest.raises(openai.APIError, match="the upstream's stream has broken"):
        next(stream)


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"{", {}, 400, "the body must be JSON"),
        (b"[]", {}, 400, "must be a JSON object, got list"),
        (b'{"user": 3.5}', {}, 400, "user must be text or an integer, got 3.5"),
        (b'{"user": ["a"]}', {}, 400, "user must be text or an integer"),
        (b'{"user": "\\ud800"}', {}, 400, "user: a key must be text in UTF-8"),
        (b"{}", {"X-Tether-Key": b"\xff"}, 400, "x-tether-key must be text in UTF-8"),
        (b"{}", {"X-Tether-Key": b""}, 400, "a key must have 1 to 500 bytes"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "content type must be application/json"),
        (b'{"x": "' + b"x" * 1_000_000 + b'"}', {}, 413, "at most 1,000,000 bytes"),
        ('{"a": 1}'.encode("utf-16"), {}, 400, "the body must be JSON"),
    ],
)
def test_errors_have_the_shape_of_openais(http, content, headers, status, message):
    given = {"Content-Type": "application/json"} | headers
    found = http.post("/v1/chat/completions", content=content, headers=given)
    assert found.status_code == status
    error = found.json()["error"]
    assert message in error["message"]
    assert set(error) == {"message", "type", "param", "code"}


def test_the_key_of_this_service_stays_here(old, new, tmp_path):
    secret = add_key(tmp_path / "keys.json", "app", ["decide"])
    other = add_key(tmp_path / "keys.json", "watcher", ["read"])
    options = {"new_options": {"model": "tuned", "api_key": "sk-new"}}
    with running(
        gateway_settings(
            tmp_path / "release.db",
            old.url,
            new.url,
            options,
            keys=ApiKeys.read(tmp_path / "keys.json"),
        )
    ) as http:
        for system in ("old", "new"):
            client = openai_client(http, api_key=secret)
            found = client.chat.completions.create(
                model="m", messages=HELLO, user=key_of(system), stream=True
            )
            assert [each.model for each in found] == ["m" if system == "old" else "tuned"] * 3
        assert "authorization" not in old.headers[-1]
        assert new.headers[-1]["authorization"] == "Bearer sk-new"
        assert secret not in json.dumps([old.headers, new.headers])
        with pytest.raises(openai.AuthenticationError, match="a valid API key is needed"):
            openai_client(http).chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(openai.PermissionDeniedError, match="has not the role 'decide'"):
            openai_client(http, api_key=other).models.list()
        assert http.get("/v1/models", headers=bearer(secret)).status_code == 200


NAMES = st.sampled_from(["model", "user", "safety_identifier", "stream", "\ud800"]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=4),
    max_leaves=6,
)


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(VALUES.map(json.dumps).map(str.encode) | st.binary(max_size=30), st.booleans())
def test_no_body_is_too_strange(http, content, is_chat):
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    found = http.post(path, content=content, headers={"Content-Type": "application/json"})
    assert found.status_code in (200, 400)
    if found.status_code == 400:
        assert found.json()["error"]["type"] == "invalid_request_error"
