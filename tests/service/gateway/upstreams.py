"""Upstream servers that really run, on loopback: they speak OpenAI's protocol, or fail at it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.service.running import tries

LONG = 60.0
"""Seconds within which everything happens on any machine, or a test fails."""


def completion(text: str, model: str = "m") -> dict:
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
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.gates = [Event() for _ in range(10)]
        self.closed = Event()
        self.respond: Callable[[Request, dict], Response] = self.answer

    def answer(self, request: Request, body: dict) -> Response:
        """A whole answer, or a stream of three tokens that wait for no one."""
        model = body.get("model")
        if not isinstance(model, str) or not model.isascii():
            model = "m"
        if body.get("stream"):
            tokens = [token(f"{self.name} {number}", model) for number in range(3)]
            return self.events([*tokens, b"data: [DONE]\n\n"])
        return JSONResponse(completion(self.name, model))

    def events(self, parts: list[bytes]) -> Response:
        """A stream."""

        async def send():
            for part in parts:
                yield part

        return StreamingResponse(send(), media_type="text/event-stream")

    def gated(self, request: Request, body: dict) -> Response:
        """A stream whose token k is sent once gate k is open; gate 0 is before the answer."""

        async def send():
            try:
                for number in range(3):
                    await opened(self.gates[number])
                    yield token(f"{self.name} {number}")
                yield b"data: [DONE]\n\n"
            finally:
                self.closed.set()

        return StreamingResponse(send(), media_type="text/event-stream")

    def broken(self, request: Request, body: dict) -> Response:
        """A stream that ends within its second event."""

        async def send():
            yield token(f"{self.name} 0")
            yield token("lost")[:20]
            await opened(self.gates[0])
            raise ConnectionResetError

        return StreamingResponse(send(), media_type="text/event-stream")

    def status(self, status: int, **headers: str) -> Callable[[Request, dict], Response]:
        error = {"message": f"{self.name} says {status}", "type": "t", "param": None, "code": "c"}
        return lambda request, body: JSONResponse({"error": error}, status, headers)

    async def _asked(self, request: Request) -> Response:
        content = await request.body()
        self.bodies.append(content)
        self.headers.append(dict(request.headers))
        return self.respond(request, json.loads(content))

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


async def opened(gate: Event) -> None:
    """Wait for a test, without holding up the server."""
    for _ in tries(LONG):
        if gate.is_set():
            return
        await asyncio.sleep(0.002)


@contextmanager
def upstream(name: str) -> Iterator[FakeUpstream]:
    """An upstream that runs as long as the context."""
    made = FakeUpstream(name)
    config = uvicorn.Config(made.application(), port=0, log_config=None, lifespan="off")
    config.timeout_graceful_shutdown = 1
    server = made.server = uvicorn.Server(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        for _ in tries(LONG):
            if server.started:
                break
            made.closed.wait(0.005)
        made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
        yield made
    finally:
        for gate in made.gates:
            gate.set()
        server.should_exit = True
        thread.join(LONG)
