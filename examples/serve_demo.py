"""A release in front of two models, live: the new one turns bad halfway, and the alarm halts it.

    make serve-demo          or: python examples/serve_demo.py --seconds 90 --port 8080

Two small models answer sums over the OpenAI protocol. A load generator asks the gateway of
`tether serve`, checks every sum and reports a wrong one as the loss. Open the dashboard at the
address that is printed; everything ends by itself with a summary.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from threading import Thread

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tether.rounds import read_release, verify_store

PROMISE = 0.1
"""At most one answer in ten may be wrong."""
ERRORS = {"old": 0.05, "new": 0.02, "new, after the change": 0.4}
"""How often each model is wrong."""
REQUESTS_PER_SECOND, CLIENTS, STEP_SECONDS = 60, 20, 8
"""The load, and the length of a step."""
SETTINGS = """
[release]
store = "release.db"
guardrails = {{ wrong = {promise} }}
promise = true
step_duration = "{step}s"
wait = 1

[flag]
key = "model"

[listen]
port = {port}

[gateway.old]
url = "http://127.0.0.1:{old}/v1"

[gateway.new]
url = "http://127.0.0.1:{new}/v1"
"""


class SumModel:
    """Answers sums, and is wrong with a probability that can change."""

    def __init__(self, name: str, error: float) -> None:
        self.name, self.error, self.port = name, error, free_port()
        routes = [Route("/v1/chat/completions", self.complete, methods=["POST"])]
        config = uvicorn.Config(Starlette(routes=routes), port=self.port, log_level="error")
        Thread(target=uvicorn.Server(config).run, daemon=True).start()

    async def complete(self, request: Request) -> JSONResponse:
        """Answer one request of the OpenAI protocol."""
        question = (await request.json())["messages"][-1]["content"]
        total = sum(map(int, re.findall(r"\d+", question)))
        total += random.random() < self.error
        message = {"role": "assistant", "content": f"That is {total}."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}
        content = {"id": "sum", "object": "chat.completion", "created": int(time.time())}
        content |= {"model": self.name, "choices": [choice], "usage": usage}
        return JSONResponse(content)


async def ask(client: httpx2.AsyncClient, user: int, counts: Counter[str]) -> None:
    """One user asks one sum; the loss is whether the answer is wrong."""
    first, second = random.randrange(100), random.randrange(100)
    question = {"role": "user", "content": f"What is {first} + {second}?"}
    body = {"model": "sums", "user": f"user {user}", "messages": [question]}
    found = await client.post("/v1/chat/completions", json=body)
    text = found.json()["choices"][0]["message"]["content"]
    wrong = int(int(re.findall(r"\d+", text)[0]) != first + second)
    system = found.headers["x-tether-system"]
    counts[system] += 1
    counts[f"{system}, wrong"] += wrong
    outcome = {"key": found.headers["x-tether-key"], "system": system, "losses": {"wrong": wrong}}
    (await client.post("/v1/outcomes", json=outcome)).raise_for_status()


async def load(address: str, new: SumModel, seconds: float) -> dict[str, Counter[str]]:
    """Ask for so many seconds; the new model changes halfway. What was answered in each half."""
    counted = {"before": Counter(), "after": Counter()}
    users, begun, part = iter(range(10**9)), time.monotonic(), "before"
    async with httpx2.AsyncClient(base_url=address, timeout=10) as client:

        async def keep_asking() -> None:
            while time.monotonic() < begun + seconds:
                await ask(client, next(users), counted[part])
                await asyncio.sleep(CLIENTS / REQUESTS_PER_SECOND * random.uniform(0.5, 1.5))

        async def watch() -> None:
            nonlocal part
            while (spent := time.monotonic() - begun) < seconds:
                if part == "before" and spent > seconds / 2:
                    part, new.error = "after", ERRORS["new, after the change"]
                    print(f"  {spent:5.0f} s   the new model turns bad now", flush=True)
                status = (await client.get("/v1/status")).json()
                alarm = "" if status["alarm"] is None else f"   ALARM: {status['alarm']['message']}"
                line = f"  {spent:5.0f} s   step {status['step']['number']}"
                print(f"{line}, share of the new model {status['share']:6.1%}{alarm}", flush=True)
                await asyncio.sleep(STEP_SECONDS / 2)

        await asyncio.gather(watch(), *(keep_asking() for _ in range(CLIENTS)))
    return counted


def free_port() -> int:
    """A port that nobody listens at."""
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


def wait_until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers."""
    for _ in range(600):
        if process.poll() is not None:
            sys.exit("the service has ended: see service.log")
        try:
            if httpx2.get(f"{address}/readyz", timeout=1).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.1)
    sys.exit("the service did not become ready within a minute")


def summary(counted: dict[str, Counter[str]], store: str) -> None:
    """Print what was answered, what was wrong, and whether the store is in order."""
    print("\n                  answers   by new   wrong   if all were by new")
    for part, counts in counted.items():
        answers, wrong = counts["old"] + counts["new"], counts["old, wrong"] + counts["new, wrong"]
        error = ERRORS["new" if part == "before" else "new, after the change"]
        print(
            f"  {part:<14}{answers:>9}{counts['new']:>9}{wrong / max(1, answers):>8.1%}"
            f"{error:>14.0%}"
        )
    history = read_release(store)
    for alarm in history.alarms:
        print(f"\n  the alarm of {alarm.monitor}: {alarm.message}")
    print(f"\n  {len(history.steps)} steps; verify: {'ok' if verify_store(store).ok else 'FAILED'}")


def main(seconds: float = 90.0, port: int = 8080) -> dict[str, Counter[str]]:
    """Run everything, and print the summary."""
    old, new = (SumModel(name, ERRORS[name]) for name in ("old", "new"))
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder, open(Path(folder, "service.log"), "wb") as log:
        file, store = Path(folder, "serve.toml"), str(Path(folder, "release.db"))
        ports = {"port": port, "old": old.port, "new": new.port}
        file.write_text(SETTINGS.format(promise=PROMISE, step=STEP_SECONDS, **ports))
        command = [sys.executable, "-m", "tether", "serve", str(file)]
        process = subprocess.Popen(command, stderr=log)
        try:
            wait_until_ready(address, process)
            print(
                f"tether serves two models with a promise of {PROMISE:g} for {seconds:g} seconds."
            )
            print(f"The dashboard: {address}/\n", flush=True)
            counted = asyncio.run(load(address, new, seconds))
        finally:
            process.terminate()
            process.wait(20)
        summary(counted, store)
    return counted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--port", type=int, default=8080)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(**vars(parser.parse_args()))
