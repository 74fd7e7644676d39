"""Services, upstreams and receivers that really run, on loopback, in threads of the tests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.llm.chat_server import Server
from tether.service.application import make_application, make_config
from tether.service.settings import ServiceSettings, make_settings

LONG = 60.0
"""Seconds within which everything happens on any machine, or a test fails."""
PATIENT = {"answer_within": LONG, "store_deadline": LONG}
"""No test depends on how fast the machine is."""
RELEASE = {"guardrails": {"complaint": 0.5}, "old": {"complaint": 0.01}}
"""A release whose first share is about a half."""


def settings(folder: Any, release: dict[str, Any] | None = None, **tables: Any) -> ServiceSettings:
    """Settings on any free port, as the file would have them."""
    content = {"listen": {"port": 0}} | tables
    content["limits"] = PATIENT | tables.get("limits", {})
    if not {"releases", "run", "gateway"} & tables.keys():
        content["release"] = {"store": "release.db"} | RELEASE | (release or {})
    return make_settings(content, folder)


def tries(seconds: float = LONG) -> Iterator[None]:
    """As many tries as fit in a time that is long on any machine; then an error."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.005)
    raise AssertionError(f"it did not come about within {seconds:g} s")


def until(find: Callable[[], Any], accept: Callable[[Any], Any] = bool) -> Any:
    """What is found once it is accepted."""
    for _ in tries():
        if accept(found := find()):
            return found


@contextmanager
def serving(server: uvicorn.Server) -> Iterator[str]:
    """The address of a web server that runs as long as the context."""
    server.config.timeout_graceful_shutdown = 2
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        for _ in tries():
            if server.started:
                break
            assert thread.is_alive()
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(LONG)
        assert not thread.is_alive()


@contextmanager
def running(given: ServiceSettings) -> Iterator[httpx2.Client]:
    """A client of a service that runs as long as the context."""
    application = make_application(given)
    with serving(uvicorn.Server(make_config(given, application))) as address:
        with httpx2.Client(base_url=address, timeout=LONG) as client:
            client.service = application.state.service
            yield client


def bearer(secret: str) -> dict[str, str]:
    """The header with an API key."""
    return {"Authorization": f"Bearer {secret}"}


def keys_of(client: httpx2.Client, system: str, count: int = 1, prefix: str = "user") -> list[str]:
    """Keys that a system answers in the present step."""
    found: list[str] = []
    for begin in range(0, 100_000, 200):
        asked = [f"{prefix} {number}" for number in range(begin, begin + 200)]
        decided = client.post("/v1/decisions", json={"keys": asked}).json()["decisions"]
        found += [each["key"] for each in decided if each["system"] == system]
        if len(found) >= count:
            return found[:count]
    raise AssertionError(f"there are no {count} keys of the {system} system")


def outcome(key: str, system: str, **losses: float) -> dict[str, Any]:
    """The outcome of a key."""
    return {"key": key, "system": system, "losses": losses}


# ---- upstreams --------------------------------------------------------------------------------


def completion(text: str, model: str = "m") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "text": text}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    made = {"id": "1", "object": "chat.completion", "created": 1, "model": model}
    return made | {"choices": [choice], "usage": usage}


def token(text: str, model: str = "m") -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "text": text, "finish_reason": None}
    made = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": model}
    return b"data: " + json.dumps(made | {"choices": [choice]}).encode() + b"\n\n"


class FakeUpstream:
    """What an upstream was asked, and what it answers: `respond(request, body)` may be replaced."""

    def __init__(self, name: str) -> None:
        self.name, self.url = name, ""
        self.bodies: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.gates = [Event() for _ in range(10)]
        self.closed = Event()
        self.respond: Callable[[Request, dict], Response] = self.answer

    def answer(self, request: Request, body: dict) -> Response:
        """A whole answer, or a stream of three tokens that wait for no one."""
        model = body.get("model")
        model = model if isinstance(model, str) and model.isascii() else "m"
        if body.get("stream"):
            tokens = [token(f"{self.name} {number}", model) for number in range(3)]
            return self.events([*tokens, b"data: [DONE]\n\n"])
        headers = {"x-request-id": self.name, "set-cookie": "user=1"}
        return JSONResponse(completion(self.name, model), headers=headers)

    def events(self, parts: list[bytes]) -> Response:
        async def send():
            for part in parts:
                yield part

        return StreamingResponse(send(), media_type="text/event-stream")

    def gated(self, request: Request, body: dict) -> Response:
        """A stream whose token k is sent once gate k is open."""

        async def send():
            try:
                for number in range(3):
                    for _ in range(int(LONG / 0.002)):
                        if self.gates[number].is_set():
                            break
                        await asyncio.sleep(0.002)
                    yield token(f"{self.name} {number}")
                yield b"data: [DONE]\n\n"
            finally:
                self.closed.set()

        return StreamingResponse(send(), media_type="text/event-stream")

    def broken(self, request: Request, body: dict) -> Response:
        """A stream that ends within its second event."""
        return self.events([token(f"{self.name} 0"), token("lost")[:20]])

    def status(self, status: int) -> Callable[[Request, dict], Response]:
        error = {"message": f"{self.name} says {status}", "type": "t", "param": None, "code": "c"}
        return lambda request, body: JSONResponse({"error": error}, status)

    async def _asked(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        return self.respond(request, body)

    async def _models(self, request: Request) -> Response:
        model = {"id": f"model of {self.name}", "object": "model", "created": 1, "owned_by": "x"}
        return JSONResponse({"object": "list", "data": [model]})

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._asked, methods=["POST"]),
                Route("/v1/completions", self._asked, methods=["POST"]),
                Route("/v1/models", self._models),
            ]
        )


@contextmanager
def upstream(name: str) -> Iterator[FakeUpstream]:
    """An upstream that runs as long as the context."""
    made = FakeUpstream(name)
    config = uvicorn.Config(made.application(), port=0, log_config=None, lifespan="off")
    made.server = uvicorn.Server(config)
    with serving(made.server) as address:
        made.url = f"{address}/v1"
        try:
            yield made
        finally:
            for gate in made.gates:
                gate.set()


class Receiver(Server):
    """Takes webhooks; each of its faults is a status, or an event that it waits for."""

    def __init__(self, *faults: Any) -> None:
        super().__init__()
        self.faults += faults

    def answer(self, path: str, body: dict) -> tuple[int, dict]:
        return 200, {}
