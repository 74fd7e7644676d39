"""One upstream, asked directly: every way to fail has its name."""

import asyncio
import json

import pytest
from starlette.responses import JSONResponse

from tests.service.gateway.upstreams import (
    LONG,
    completion,
    upstream,
)
from tether.service.gateway.upstream import Upstream
from tether.service.settings.gateway_table import UpstreamSettings

BODY = json.dumps({"model": "m", "messages": []}).encode()


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
