"""What the gateway adds to a language model's upstream, measured in turns within one run.

    python -m benchmarks.gateway [--seconds 6] [--connections 1 8]

The upstream answers at once, so that what is left is the gateway: the key, the decision, which is
stored, the request to the upstream and the way back. Each request is a new unit of a release, half
of them of the new system, and its losses are reported. Both are asked by the same bare client, the
upstream directly and through the gateway in turns, so that other work on the machine slows down
both; the figures are differences between medians. Clients rest between two requests, as an upstream
that answers at once would otherwise be a test of throughput; a last line is that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import tether
from benchmarks.serve import free_port, process
from tether.release import ArmCounts
from tether.rounds import verify_store

MAX_ADDED_MS = 10.0
"""The most milliseconds at the median that a gateway may add to an answer, or a first token."""
GATEWAY_TURN_SECONDS, REST_SECONDS, TOKENS = 0.5, 0.05, 20
GUARDRAILS = ("complaint", "failure", "slow")
GATEWAY = """
[release]
store = "release.db"
[gateway]
failure_guardrail = "failure"
latency_guardrail = "slow"
[gateway.old]
url = "http://127.0.0.1:{upstream}/v1"
[gateway.new]
url = "http://127.0.0.1:{upstream}/v1"
[listen]
port = {port}
"""
MESSAGES = [{"role": "user", "content": "hello " * 50}]


def serve_upstream(port: int) -> None:
    """A language model that answers at once, and streams its tokens as fast as it can."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    message = {"role": "assistant", "content": "word " * TOKENS}
    whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    whole["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    part = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    part["choices"] = [{"index": 0, "finish_reason": None, "delta": {"content": "word "}}]
    event = b"data: " + json.dumps(part).encode() + b"\n\n"

    async def tokens():
        for _ in range(TOKENS):
            yield event
        yield b"data: [DONE]\n\n"

    async def answer(request: Request) -> Response:
        if (await request.json()).get("stream"):
            return StreamingResponse(tokens(), media_type="text/event-stream")
        return JSONResponse(whole)

    app = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error", access_log=False)


async def ask(
    port: int, connections: int, seconds: float, is_stream: bool, rest: float = REST_SECONDS
) -> list[float]:
    """The seconds to each whole answer, or to each first token of a stream."""
    spent: list[float] = []
    end = time.perf_counter() + seconds
    body = json.dumps({"model": "m", "messages": MESSAGES, "stream": is_stream}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
    request = head % len(body) + b"Content-Type: application/json\r\n\r\n" + body

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            begun = time.perf_counter()
            writer.write(request)
            headers = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert b" 200 " in headers[:20], headers
            if is_stream:
                await reader.readuntil(b"data: ")
                spent.append(time.perf_counter() - begun)
                await reader.readuntil(b"0\r\n\r\n")
            else:
                length = int(headers.partition(b"content-length:")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                spent.append(time.perf_counter() - begun)
            await asyncio.sleep(rest)
        writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return spent


def compare(direct: int, through: int, connections: int, seconds: float, is_stream: bool) -> bool:
    """Print what the gateway adds; whether it is within the limit."""
    spent: dict[int, list[float]] = {direct: [], through: []}
    for _ in range(max(1, round(seconds / GATEWAY_TURN_SECONDS))):
        for port, found in spent.items():
            found += asyncio.run(ask(port, connections, GATEWAY_TURN_SECONDS, is_stream))
    medians = {port: 1000 * float(np.median(found)) for port, found in spent.items()}
    tails = {port: 1000 * float(np.quantile(found, 0.99)) for port, found in spent.items()}
    added = medians[through] - medians[direct]
    name = "first token of a stream" if is_stream else "whole answer"
    print(
        f"gateway, {name}, {connections} clients: {added:+.1f} ms at p50 (at most "
        f"{MAX_ADDED_MS:g}; {medians[direct]:.1f} direct, {medians[through]:.1f} through it, "
        f"{len(spent[through])} requests), p99 {tails[direct]:.1f} and {tails[through]:.1f} ms  "
        f"{'ok' if added <= MAX_ADDED_MS else 'OVER'}",
        flush=True,
    )
    return added <= MAX_ADDED_MS


def main(seconds: float = 6.0, connections: tuple[int, ...] = (1, 8)) -> None:
    folder, upstream, port = Path(tempfile.mkdtemp()), free_port(), free_port()
    (folder / "gateway.toml").write_text(GATEWAY.format(upstream=upstream, port=port))
    store = folder / "release.db"
    old = {name: ArmCounts(10_000, 0.0) for name in GUARDRAILS}
    tether.Release(
        str(store), guardrails=dict.fromkeys(GUARDRAILS, 0.5), old=old, max_silence=None
    ).close()
    with (
        process(upstream, "-m", "benchmarks.gateway", "--upstream", str(upstream)),
        process(port, "-m", "tether", "serve", str(folder / "gateway.toml")),
    ):
        for is_stream in (False, True):
            for each in (upstream, port):
                asyncio.run(ask(each, max(connections), GATEWAY_TURN_SECONDS, is_stream))
            for count in connections:
                compare(upstream, port, count, seconds, is_stream)
        for each, name in ((upstream, "the upstream"), (port, "the gateway")):
            count = len(asyncio.run(ask(each, 8, seconds, False, rest=0.0)))
            print(f"{name}, 8 clients that do not rest: {count / seconds:,.0f} answers per second")
    assert verify_store(store).ok


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if given.upstream:
        serve_upstream(given.upstream)
    else:
        main(given.seconds, tuple(given.connections))
