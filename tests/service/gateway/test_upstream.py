"""One upstream, asked directly: every way to fail has its name."""

import asyncio
import gzip
import json

import pytest
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from tests.service.gateway.upstreams import (
    LONG,
    completion,
    dead_url,
    opened,
    raw_server,
    token,
    upstream,
)
from tether.service.gateway import upstream_answer
from tether.service.gateway.answer_parts import UpstreamError
from tether.service.gateway.upstream import Upstream
from tether.service.settings.gateway_table import UpstreamSettings

BODY = json.dumps({"model": "m", "messages": []}).encode()
STREAM = json.dumps({"model": "m", "messages": [], "stream": True}).encode()


@pytest.fixture(scope="module")
def server():
    with upstream("up") as made:
        yield made


@pytest.fixture(autouse=True)
def usual(request):
    if "server" in request.fixturenames:
        made = request.getfixturevalue("server")
        made.respond = made.answer
        for gate in made.gates:
            gate.clear()


def ask(url, body=BODY, headers=(), use=None, **limits):
    """What `use(answer)` says of an answer, by default all of it."""
    waits = {"connect_within": LONG, "first_byte_within": LONG, "chunk_within": LONG}

    async def main():
        asked = Upstream("up", UpstreamSettings(url, **waits | limits))
        try:
            answer = await asked.post("chat/completions", body, headers)
            try:
                return await (use or read)(answer)
            finally:
                await answer.close()
        finally:
            await asked.close()

    return asyncio.run(asyncio.wait_for(main(), LONG))


async def read(answer):
    rest = [part async for part in answer.rest] if answer.rest is not None else []
    return answer.status, dict(answer.headers), answer.content + b"".join(rest)


def test_bytes_pass_as_they_are(server):
    status, headers, content = ask(server.url)
    assert (status, headers[b"content-type"]) == (200, b"application/json")
    assert json.loads(content) == completion("up")
    assert server.bodies[-1] == BODY
    odd = b'{"model": "m", "x": 1.0e5, "stream": true,  "\\u00e4": [null]}'
    _, headers, content = ask(server.url, odd)
    assert server.bodies[-1] == odd
    assert headers[b"content-type"].startswith(b"text/event-stream")
    expected = [token(f"up {number}") for number in range(3)]
    assert content == b"".join(expected) + b"data: [DONE]\n\n"


def test_headers_that_are_of_this_service_alone_do_not_pass(server):
    def respond(request, body):
        given = {"X-Request-Id": "7", "Set-Cookie": "a=b", "Retry-After": "3", "Server": "s"}
        given |= {"Strict-Transport-Security": "max-age=9", "Access-Control-Allow-Origin": "*"}
        given |= {"X-Tether-System": "new", "X-Frame-Options": "ALLOW", "openai-version": "1"}
        return JSONResponse(completion("up"), headers=given)

    server.respond = respond
    sent = {
        "Authorization": "Bearer tether_x",
        "X-API-Key": "x",
        "Cookie": "c",
        "X-Tether-Key": "k",
    }
    sent |= {"Connection": "close, X-Hop", "X-Hop": "1", "Accept-Encoding": "br", "X-Other": "yes"}
    sent |= {"Content-Type": "text/plain", "OpenAI-Project": "p", "TE": "trailers"}
    raw = [(name.encode(), value.encode()) for name, value in sent.items()]

    async def twice():  # a cookie would be sent the second time
        asked = Upstream("up", UpstreamSettings(server.url, api_key="sk-1"))
        answers = [await asked.post("completions", BODY, raw) for _ in range(2)]
        await asked.close()
        return answers

    answer = asyncio.run(asyncio.wait_for(twice(), LONG))[1]
    seen = server.headers[-1]
    assert seen["authorization"] == "Bearer sk-1"
    assert (seen["x-other"], seen["openai-project"]) == ("yes", "p")
    assert (seen["accept-encoding"], seen["content-type"]) == ("identity", "application/json")
    assert not {"x-api-key", "cookie", "x-tether-key", "x-hop", "te"} & set(seen)
    back = {name for name, _ in answer.headers}
    assert back == {b"content-type", b"x-request-id", b"retry-after", b"openai-version"}


def test_an_encoding_is_undone(server):
    content = gzip.compress(json.dumps(completion("packed")).encode())
    server.respond = lambda request, body: Response(
        content, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}
    )
    assert json.loads(ask(server.url)[2]) == completion("packed")
    content = b"no gzip"
    with pytest.raises(UpstreamError, match="garbled"):
        ask(server.url)


@pytest.mark.parametrize("status", [400, 403, 404, 429])
def test_refusals_are_answers(server, status):
    server.respond = server.status(status, **{"Retry-After": "3"})
    found, headers, content = ask(server.url, STREAM)
    assert found == status
    assert headers[b"retry-after"] == b"3"
    assert json.loads(content)["error"]["message"] == f"up says {status}"


OK = b"HTTP/1.1 200 OK\r\nContent-Type: "


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "broken"),
        (b"this is not HTTP\r\n\r\n", "broken"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "server_error"),
        (b"HTTP/1.1 503 No\r\n\r\n", "server_error"),
        (b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "unauthorized"),
        (b"HTTP/1.1 408 No\r\nContent-Length: 0\r\n\r\n", "slow"),
        (b"HTTP/1.1 302 No\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "garbled"),
        (OK + b"application/json\r\n\r\n<html>", "garbled"),
        (OK + b"application/json\r\n\r\n[]", "garbled"),
        (OK + b'application/json\r\n\r\n{"choices": 3}', "garbled"),
        (OK + b'application/json\r\n\r\n{"choices": []}', "garbled"),
        (OK + b'application/json\r\n\r\n{"choices": [{}], "error": {"code": 5}}', "garbled"),
        (OK + b"application/json\r\n\r\n" + b"[" * 100_000, "garbled"),
        (OK + b'application/json\r\nContent-Length: 99\r\n\r\n{"choices": []', "broken"),
        (OK + b"text/event-stream\r\n\r\n", "garbled"),
        (OK + b"text/event-stream\r\n\r\ndata: <html>\n\n", "garbled"),
        (OK + b"text/event-stream\r\n\r\ndata: [DONE]\n\n", "garbled"),
        (OK + b'text/event-stream\r\n\r\ndata: {"error": {"message": "x"}}\n\n', "garbled"),
        (OK + b'text/event-stream\r\n\r\ndata: {"choices"', "garbled"),
    ],
)
def test_every_failure_has_a_name(reply, reason):
    with raw_server(reply) as made, pytest.raises(UpstreamError) as found:
        ask(made.url, STREAM)
    assert found.value.reason == reason
    assert made.connections == 1


def test_a_dead_upstream_is_unreachable():
    with pytest.raises(UpstreamError, match="unreachable"):
        ask(dead_url())


def test_an_answer_that_is_too_long_is_refused(server, monkeypatch):
    monkeypatch.setattr(upstream_answer, "MAX_ANSWER_BYTES", 50)
    with pytest.raises(UpstreamError, match="garbled"):
        ask(server.url)
    server.respond = lambda request, body: server.events([b": " + b"x" * 60, b"x"])
    with pytest.raises(UpstreamError, match="garbled"):
        ask(server.url, STREAM)


def test_comments_before_the_first_event_do_not_count_as_an_answer(server):
    def respond(request, body):
        async def send():
            yield b": processing\n\n"
            await opened(server.gates[0])

        return StreamingResponse(send(), media_type="text/event-stream")

    server.respond = respond
    with pytest.raises(UpstreamError, match="slow"):
        ask(server.url, STREAM, first_byte_within=0.3)


@pytest.mark.parametrize("limit", ["chunk_within", "finish_within"])
def test_a_stream_that_stops_is_slow(server, limit):
    server.respond = server.gated
    server.gates[0].set()

    async def use(answer):
        assert answer.content == token("up 0")
        with pytest.raises(UpstreamError, match="slow"):
            await anext(answer.rest)

    if limit == "chunk_within":
        ask(server.url, STREAM, use=use, chunk_within=0.05)
    else:
        with pytest.raises(UpstreamError, match="slow"):
            ask(server.url, STREAM, finish_within=0.3)


def test_a_stream_that_breaks_gives_whole_events_and_an_error(server):
    server.respond = server.broken
    server.gates[0].set()

    async def use(answer):
        assert answer.content == token("up 0")
        with pytest.raises(UpstreamError, match="broken"):
            await anext(answer.rest)

    ask(server.url, STREAM, use=use)


@pytest.mark.parametrize(
    ("end", "is_whole"),
    [
        (b"data: [DONE]", True),
        (b'data: {"choices": [{"finish_reason": "stop"}]}\n', True),
        (b'data: {"choices": [{"finish_reason": "stop"}]}\n\n', True),
        (b"data: {}\n", False),
        (b"", False),
        (b'data: {"ch', False),
    ],
)
def test_a_stream_says_that_it_ends_and_may_lack_its_last_empty_line(end, is_whole):
    with raw_server(OK + b"text/event-stream\r\n\r\n" + token("a") + end) as made:
        if is_whole:
            assert ask(made.url, STREAM)[2] == token("a") + end
        else:
            with pytest.raises(UpstreamError, match="broken"):
                ask(made.url, STREAM)


def test_nothing_waits_for_a_whole_stream_and_closing_it_ends_it(server):
    server.respond = server.gated
    server.closed.clear()
    server.gates[0].set()

    async def use(answer):
        assert answer.content == token("up 0")  # the next one is not even made
        server.gates[1].set()
        assert await anext(answer.rest) == token("up 1")

    ask(server.url, STREAM, use=use)
    assert server.closed.wait(LONG)


def test_models_and_redirects(server):
    async def main():
        asked = Upstream("up", UpstreamSettings(server.url))
        models = await asked.get("models")
        await asked.close()
        return models

    found = asyncio.run(asyncio.wait_for(main(), LONG))
    assert json.loads(found.content)["data"][0]["id"] == "model of up"
    server.respond = lambda request, body: RedirectResponse(server.url + "/models", 307)
    with pytest.raises(UpstreamError, match="garbled"):
        ask(server.url)


def test_the_environment_is_not_followed(server, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, dead_url())
    assert ask(server.url)[0] == 200


def test_a_request_over_a_kept_connection_that_the_server_closes_is_sent_again():
    """Servers close what was idle for too long, at a moment of their own."""
    content = json.dumps(completion("up")).encode()
    kept = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

    async def several(url):
        asked = Upstream("up", UpstreamSettings(url, first_byte_within=LONG))
        answers = [await asked.post("completions", BODY) for _ in range(3)]
        await asked.close()
        return [answer.content for answer in answers]

    with raw_server(kept % len(content) + content, b"") as made:  # the second is never answered
        assert asyncio.run(asyncio.wait_for(several(made.url), LONG)) == [content] * 3
        assert made.connections == 3
