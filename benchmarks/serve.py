"""A service under load, as ratios to a bare Starlette endpoint in the same run.

    python -m benchmarks.serve [--seconds 6] [--connections 64] [--sqlite-only]

The bare endpoint parses and answers the same JSON, and stores nothing. Both run in processes of
their own with the same web server, and are asked in turn, a moment each, so that other work on the
machine slows down both. Every decision is of a new key, so each is a row that is stored.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
from tests.runs import postgres_server

from tether.rounds import read_release, verify_store

MIN_RATE, MAX_TAIL = 0.5, 3.0
"""The least decisions per second, and the largest p99, as ratios to the bare endpoint."""
TURN_SECONDS = 1.0
SERVICE = """
[release]
store = "{store}"
guardrails = {{ complaint = 0.02 }}
max_silence = "none"
[listen]
port = {port}
[limits]
answer_within = 30
requests_per_second = 1e9
"""


async def _answer(request):
    from starlette.responses import JSONResponse

    body = json.loads(await request.body())
    return JSONResponse({"key": body["key"], "system": "old", "stored": True})


def serve_bare(port: int) -> None:
    """The bare endpoint."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Route

    app = Starlette(routes=[Route("/v1/decisions", _answer, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error", access_log=False)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def process(port: int, *command: str) -> Iterator[None]:
    """A server that answers, until the end of the context."""
    started = subprocess.Popen([sys.executable, *command], stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(30)


async def ask(port: int, connections: int, seconds: float, numbers: Iterator[int]) -> list[float]:
    """How long each request took, with so many connections that ask one after the other."""
    spent: list[float] = []
    end = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            body = b'{"key": "user %d"}' % next(numbers)
            head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
            begun = time.perf_counter()
            writer.write(head % len(body) + b"Content-Type: application/json\r\n\r\n" + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            content = await reader.readexactly(length)
            spent.append(time.perf_counter() - begun)
            assert b" 200 " in answer[:20], answer
            unstored[0] += b'"stored":false' in content
        writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return spent


unstored = [0]


def compare(name: str, store: str, seconds: float, connections: int) -> bool:
    """Print the ratios with one store; whether they are within the limits."""
    folder, bare, served = Path(tempfile.mkdtemp()), free_port(), free_port()
    (folder / "serve.toml").write_text(SERVICE.format(store=store, port=served))
    numbers, spent = count(), {bare: [], served: []}
    unstored[0] = 0
    file = str(folder / "serve.toml")
    with (
        process(bare, "-m", "benchmarks.serve", "--bare", str(bare)),
        process(served, "-m", "tether", "serve", file),
    ):
        for port in spent:
            asyncio.run(ask(port, connections, TURN_SECONDS / 2, numbers))  # to warm up
        turns = round(seconds / TURN_SECONDS)
        for _ in range(turns):
            for port, found in spent.items():
                found += asyncio.run(ask(port, connections, TURN_SECONDS, numbers))
    rates = {port: len(found) / (turns * TURN_SECONDS) for port, found in spent.items()}
    tails = {port: float(np.quantile(found, 0.99)) for port, found in spent.items()}
    rate, tail = rates[served] / rates[bare], tails[served] / tails[bare]
    good = rate >= MIN_RATE and tail <= MAX_TAIL
    print(
        f"{name}, {connections} connections: {rates[served]:,.0f} decisions per second, "
        f"{rate:.2f} × bare (at least {MIN_RATE:g}); p99 {1000 * tails[served]:.1f} ms, "
        f"{tail:.2f} × bare (at most {MAX_TAIL:g}); {unstored[0]} answered without the store  "
        f"{'ok' if good else 'OVER'}",
        flush=True,
    )
    path = store if "://" in store else str(folder / store)
    assert verify_store(path).ok
    assert read_release(path).steps
    return good


def main(seconds: float = 6.0, connections: int = 64, sqlite_only: bool = False) -> None:
    compare("SQLite", "release.db", seconds, connections)
    if sqlite_only or postgres_server.missing():
        print(f"PostgreSQL: {postgres_server.missing() or 'left out'}")
        return
    server = postgres_server.Server(durable=True)
    try:
        compare("PostgreSQL", server.database(), seconds, connections)
    finally:
        server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--sqlite-only", action="store_true")
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if given.bare:
        serve_bare(given.bare)
    else:
        main(given.seconds, given.connections, given.sqlite_only)
