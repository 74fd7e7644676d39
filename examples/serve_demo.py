"""A release in front of two models, live: the new one turns bad, and the release stops it.

    make serve-demo          or: python examples/serve_demo.py --port 8080

Two small models answer sums over the OpenAI protocol, behind the gateway of `tether serve`. Users
ask, every sum is checked, and a wrong one is reported as the loss. When the new model has half of
the users, or after a while, it turns bad. What that costs is printed beside what the same users
would have met with fixed canary steps. Everything is decided by hashes, so it is the same each
time. Open the page at the address that is printed.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tether.runs import Release, Run

TOLERATED, OLD_ERROR, NEW_ERROR, BAD_ERROR = 0.1, 0.05, 0.03, 0.4
"""At most one answer in ten may be wrong; how often each model is."""
USERS_PER_STEP, STEPS, AFTER = 60, 14, 240
"""How many users a step has, the most steps of the good part, and users after the change."""
CANARY = (0.01, 0.05, 0.25, 0.5, 1.0)
"""The shares of fixed canary steps, of as many users each, without analysis."""
SETTINGS = """
[release]
store = "release.db"

[release.flag]
key = "model"

[listen]
port = {port}

[limits]
answer_within = 10

[release.gateway.old]
url = "http://127.0.0.1:{old}/v1"

[release.gateway.new]
url = "http://127.0.0.1:{new}/v1"
"""


def uniform(*names: object) -> float:
    """A number in [0, 1) that looks random and is always the same."""
    return int.from_bytes(blake2b(repr(names).encode(), digest_size=8).digest(), "big") / 2**64


class SumModel:
    """Answers sums, and is wrong for some users."""

    def __init__(self, error: float) -> None:
        self.error, self.port = error, free_port()
        routes = [Route("/v1/chat/completions", self.complete, methods=["POST"])]
        config = uvicorn.Config(Starlette(routes=routes), port=self.port, log_level="error")
        Thread(target=uvicorn.Server(config).run, daemon=True).start()

    async def complete(self, request: Request) -> JSONResponse:
        """Answer one request of the OpenAI protocol."""
        body = await request.json()
        total = sum(map(int, re.findall(r"\d+", body["messages"][-1]["content"])))
        total += uniform("wrong", body["user"]) < self.error
        message = {"role": "assistant", "content": f"That is {total}."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        content = {"id": "sum", "object": "chat.completion", "created": int(time.time())}
        return JSONResponse(content | {"model": "sums", "choices": [choice]})


def ask(client: httpx2.Client, user: int) -> tuple[str, bool]:
    """One user asks one sum; the system that answered, and whether it was wrong."""
    question = {"role": "user", "content": f"What is {user} + {7 * user}?"}
    body = {"model": "sums", "user": f"user {user}", "messages": [question]}
    found = client.post("/v1/chat/completions", json=body)
    said = int(re.findall(r"\d+", found.json()["choices"][0]["message"]["content"])[0])
    wrong, system = said != 8 * user, found.headers["x-tether-system"]
    outcome = {"key": f"user {user}", "system": system, "losses": {"wrong": float(wrong)}}
    client.post("/v1/outcomes", json=outcome).raise_for_status()
    return system, wrong


def canary_failures(first: int, count: int) -> int:
    """How many of the users after the change fixed canary steps would have failed, at best.

    At the change they are where the release is: at the last share that is not larger than a half.
    """
    share = max(each for each in CANARY if each <= 0.5)
    users = range(first, first + count)
    return sum(
        uniform("wrong", f"user {user}")
        < (BAD_ERROR if uniform("canary", user) < share else OLD_ERROR)
        for user in users
    )


def play(client: httpx2.Client, new: SumModel) -> dict[str, int]:
    """Users ask, the new model turns bad, and the release stops it; what it cost."""
    user, step = 0, 0
    while True:
        status = client.get("/v1/status").json()
        if status["step"]["number"] != step:
            step = status["step"]["number"]
            print(f"  step {step:2}   share of the new model {status['share']:6.1%}", flush=True)
            if status["share"] >= 0.5 or step > STEPS:
                break
        for _ in range(USERS_PER_STEP // 4):
            ask(client, user)
            user += 1
    new.error, first = BAD_ERROR, user
    print(f"\n  The new model turns bad: {BAD_ERROR:.0%} of its answers are wrong.", flush=True)
    counted = {"first": first, "failures": 0, "by new": 0, "stopped after": 0}
    while user < first + AFTER:
        system, wrong = ask(client, user)
        user += 1
        counted["failures"] += wrong
        counted["by new"] += wrong and system == "new"
        if not counted["stopped after"]:
            gate = client.get("/v1/gate").json()
            if gate["verdict"] == "fail" and gate["alarm"] is not None:
                counted["stopped after"] = user - first
                print(f"  Stopped after {user - first} users: {gate['reason']}\n", flush=True)
    return counted


def free_port() -> int:
    """A port that nobody listens at."""
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return int(found.getsockname()[1])


def wait_until_ready(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until the service answers."""
    for _ in range(1200):
        if process.poll() is not None:
            sys.exit("the service has ended")
        try:
            if httpx2.get(f"{address}/readyz", timeout=5).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.1)
    sys.exit("the service did not become ready")


def main(port: int = 8080) -> dict[str, int]:
    """Run everything, and print what it cost."""
    old, new = SumModel(OLD_ERROR), SumModel(NEW_ERROR)
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        file, log = Path(folder, "serve.toml"), Path(folder, "service.log")
        file.write_text(SETTINGS.format(port=port, old=old.port, new=new.port))
        guardrails, known = {"wrong": TOLERATED}, {"wrong": OLD_ERROR}
        with patch("secrets.token_bytes", bytes):  # the same users have the new model each time
            Release(Path(folder, "release.db"), guardrails, old=known, step=USERS_PER_STEP).close()
        with log.open("wb") as errors:
            command = [sys.executable, "-m", "tether", "serve", str(file)]
            process = subprocess.Popen(command, stderr=errors)
            try:
                wait_until_ready(address, process)
                print(f"tether serves two models; at most {TOLERATED:.0%} of answers may be wrong.")
                print(f"The page: {address}/\n", flush=True)
                with httpx2.Client(base_url=address, timeout=60) as client:
                    counted = play(client, new)
            finally:
                process.terminate()
                process.wait(60)
        with Run.open(Path(folder, "release.db")) as run:
            findings = run.verify()
    counted["canary"] = canary_failures(counted["first"], AFTER)
    print(f"  Wrong answers among the {AFTER} users after the change:")
    print(f"    with the release         {counted['failures']:4}")
    print(f"    with fixed canary steps  {counted['canary']:4}   (half of the users, no analysis)")
    print(f"    with the old model alone {round(AFTER * OLD_ERROR):4}   on average")
    print(f"\n  tether verify: {findings or 'nothing is wrong'}")
    return counted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8080)
    main(**vars(parser.parse_args()))
