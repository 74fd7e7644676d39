"""Decisions beside a bare Starlette endpoint; chats through the gateway beside their upstream."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator

import httpx2
import numpy as np

from benchmarks.soak import Soak, free_port, wait_until_ready

ROUNDS, REQUESTS = 5, 1600  # so many requests a round
CHAT = "/v1/chat/completions"
MESSAGE = {"model": "any", "messages": [{"role": "user", "content": "Hi"}]}
BARE = """
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
async def answer(request):
    return JSONResponse({{"length": len(await request.body()), "stored": True}})
routes = [Route("/{{path:path}}", answer, methods=["GET", "POST"])]
uvicorn.run(Starlette(routes=routes), port={port}, log_level="error", access_log=False)
"""


async def ask(url: str, bodies: Iterator[dict], clients: int) -> list[float]:
    """Seconds that each request took, of clients that ask one after the other."""
    seconds: list[float] = []

    async def client() -> None:
        async with httpx2.AsyncClient(timeout=30) as http:
            for body in bodies:  # shared: each body is asked once
                begun = time.perf_counter()
                (await http.post(url, json=body)).raise_for_status()
                seconds.append(time.perf_counter() - begun)

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds


def main(store: str, clients: int) -> None:
    """Ask both in turn, and print what was found."""
    soak, port = Soak(store, 1, 0), free_port()
    bare = subprocess.Popen([sys.executable, "-c", BARE.format(port=port)])
    try:
        wait_until_ready(bare, here := f"http://127.0.0.1:{port}")
        for path, other in (("/v1/decisions", here), (CHAT, f"http://127.0.0.1:{soak.old.port}")):
            found: dict[str, list[list[float]]] = {soak.address(): [], other: []}
            for turn in range(ROUNDS + 1):  # the first warms up
                for address in found:
                    keys = (f"{turn} {n}" for n in range(REQUESTS))
                    bodies = (MESSAGE | {"user": n} if path == CHAT else {"key": n} for n in keys)
                    found[address].append(asyncio.run(ask(address + path, bodies, clients)))
            ours, theirs = (1e3 * np.concatenate(each[1:]) for each in found.values())
            (p50, p99), (bare50, bare99) = (np.quantile(x, [0.5, 0.99]) for x in (ours, theirs))
            print(f"{path} on {store}: {theirs.mean() / ours.mean():.2f} x the rate;", end=" ")
            print(f"p50 {p50:.1f} ms, {p50 - bare50:.1f} more; p99 {p99:.1f}, {p99 / bare99:.1f} x")
    finally:
        bare.kill()
        soak.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("clients", nargs="?", type=int, default=16)
    main(**vars(parser.parse_args()))
