"""Services on one store under load; they, an upstream and the database are killed at random.

    python -m benchmarks.soak [--minutes 30] [--store postgresql] [--services 3]

Checked afterwards: every answer with stored=true is a row of its system in the store; every request
was answered; what the gateway reported by itself is stored; memory is flat; and `verify` finds
nothing. The first service is never killed: its memory is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import httpx2
import numpy as np
from tests.runs import postgres_server
from tests.runs.frozen_processes import frozen, server_pids

from tether.runs import Release
from tether.runs.keys import key_name, last_rows, standing_rows
from tether.runs.release import SYSTEMS

Client = httpx2.AsyncClient
CLIENTS = 16
CHAT_SHARE, REPORT_SHARE, ERROR = 0.2, 0.3, 0.02
"""How many requests go through the gateway, how many have a reported outcome, and how many fail."""
ANSWER_SECONDS = 30.0
"""A request without an answer for so long, while a service is up, has none."""
GROWTH_MIB, GROWTH_BYTES_PER_ROW, GROWTH_SECONDS = 32.0, 400.0, 600.0
"""How much a service may grow after its warm-up, which a shorter run is."""
SETTINGS = """
[release]
store = "{store}"
guardrails = {{ complaint = 0.3, failure = 0.3 }}
old = {{ complaint = 0.02, failure = 0.02 }}
step = 4000
[listen]
port = {port}
[release.gateway]
failure_guardrail = "failure"
[release.gateway.old]
url = "http://127.0.0.1:{old}/v1"
[release.gateway.new]
url = "http://127.0.0.1:{new}/v1"
first_byte_within = 1.0
"""


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], address: str) -> None:
    """Wait until a service answers."""
    for _ in range(6_000):
        assert process.poll() is None
        try:
            if httpx2.get(f"{address}/readyz", timeout=60).status_code == 200:
                return
        except httpx2.TransportError:
            time.sleep(0.02)
    raise TimeoutError("the service did not become ready")


class Upstream:
    """An upstream in a process of its own, which answers with its name."""

    def __init__(self, name: str) -> None:
        self.name, self.port = name, free_port()
        self.start()

    def start(self) -> None:
        script = f"from benchmarks.soak import Upstream; Upstream.serve({self.name!r}, {self.port})"
        self.process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    @staticmethod
    def serve(name: str, port: int) -> None:
        """Answer chats with a name."""
        import uvicorn
        from tests.service.running import FakeUpstream

        app = FakeUpstream(name).application()
        uvicorn.run(app, port=port, log_level="error", access_log=False)


class Soak:
    """Services on a store, their clients, and what disturbs them."""

    def __init__(self, store: str, services: int, seed: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tether-soak-"))
        self.ports, self.rng = [free_port() for _ in range(services)], random.Random(seed)
        self.server = postgres_server.Server() if store == "postgresql" else None
        self.store = str(self.folder / "release.db")
        if self.server is not None:
            self.store = self.server.database()
        self.old, self.new = Upstream("old"), Upstream("new")
        self.errors = self.folder / "log"
        self.stored: set[tuple[str, str]] = set()
        self.seconds: list[float] = []
        self.counts: Counter[str] = Counter()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        for port in self.ports:
            self.start(port)
            wait_until_ready(self.processes[port], f"http://127.0.0.1:{port}")

    def start(self, port: int) -> None:
        """Start a service at a port."""
        path, upstreams = self.folder / f"{port}.toml", {"old": self.old.port, "new": self.new.port}
        path.write_text(SETTINGS.format(store=self.store, port=port, **upstreams))
        with self.errors.open("ab") as errors:
            command = [sys.executable, "-m", "tether", "serve", str(path)]
            self.processes[port] = subprocess.Popen(command, stderr=errors)

    def address(self) -> str:
        """Any of the services."""
        return f"http://127.0.0.1:{random.choice(self.ports)}"

    async def run(self, seconds: float, rate: float) -> list[tuple[float, int]]:
        ends, samples = asyncio.Event(), list[tuple[float, int]]()
        clients = [asyncio.create_task(self._ask_on(n, rate, ends)) for n in range(CLIENTS)]
        end = time.monotonic() + seconds
        measuring = asyncio.create_task(self._measure(samples, end))
        while time.monotonic() < end:
            await asyncio.sleep(self.rng.uniform(1.0, 4.0))
            name = self.rng.choices(list(DISTURBANCES), [w for w, _ in DISTURBANCES.values()])[0]
            if await DISTURBANCES[name][1](self):
                self.counts[name] += 1
        await measuring
        await asyncio.sleep(2.0)  # undisturbed
        ends.set()
        await asyncio.gather(*clients)
        return samples

    async def post(self, client: Client, path: str, body: object) -> httpx2.Response | None:
        """The answer of any service, and of another one if the connection is lost."""
        end = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < end:
            client.base_url = self.address()
            try:
                found = await client.post(path, json=body)
            except httpx2.TransportError as error:
                self.counts[f"connections: {type(error).__name__}"] += 1
                await asyncio.sleep(0.02)
                continue
            if found.status_code == 200 or path == "/v1/outcomes":
                return found
            self.counts[f"status {found.status_code} of {path}"] += 1
            await asyncio.sleep(0.02)
        self.counts[f"no answer of {path}"] += 1
        return None

    async def _ask_on(self, number: int, rate: float, ends: asyncio.Event) -> None:
        """Decide on keys, one after the other, and report losses of some."""
        rng, keys, recent = random.Random(number), count(), list[str]()
        async with Client(timeout=ANSWER_SECONDS) as client:
            while not ends.is_set():
                key = rng.choice(recent) if recent and rng.random() < 0.5 else ""
                key = key or f"client {number}: {next(keys)}"
                recent = [*recent[-199:], key]
                begun, is_chat = time.monotonic(), rng.random() < CHAT_SHARE
                found = await (self._chat(client, key) if is_chat else self._decide(client, key))
                if found is not None and found[1]:
                    self.stored.add((key, found[0]))
                    if rng.random() < REPORT_SHARE:
                        losses = {"complaint": float(rng.random() < ERROR)}
                        body = {"key": key, "system": found[0], "losses": losses}
                        await self.post(client, "/v1/outcomes", body | {"keep_first": True})
                if not is_chat:
                    self.seconds.append(time.monotonic() - begun)
                self.counts["answers"] += 1
                self.counts["answers without the store"] += found is not None and not found[1]
                await asyncio.sleep(CLIENTS / rate * rng.uniform(0.5, 1.5))

    async def _decide(self, client: Client, key: str) -> tuple[str, bool] | None:
        found = await self.post(client, "/v1/decisions", {"key": key})
        return None if found is None else (found.json()["system"], found.json()["stored"])

    async def _chat(self, client: Client, key: str) -> tuple[str, bool] | None:
        """The same of a chat, whose answer must be that of who served it."""
        messages = [{"role": "user", "content": "Who are you?"}]
        body = {"model": "any", "user": key, "messages": messages}
        found = await self.post(client, "/v1/chat/completions", body)
        if found is None:
            return None
        system, served = (found.headers[f"x-tether-{each}"] for each in ("system", "served"))
        said = found.json()["choices"][0]["message"]["content"]
        if served != said or (system, served) == ("old", "new"):
            self.counts["no answer: another upstream than is said"] += 1
        self.counts["chats of the new system by the old upstream"] += system != served
        return system, found.headers["x-tether-stored"] == "true"

    async def _measure(self, samples: list[tuple[float, int]], end: float) -> None:
        while time.monotonic() < end:
            status = Path(f"/proc/{self.processes[self.ports[0]].pid}/status").read_text()
            samples.append((time.monotonic(), int(status.partition("VmRSS:")[2].split()[0])))
            await asyncio.sleep(1.0)

    def close(self) -> None:
        """End everything that was started."""
        for process in (*self.processes.values(), self.old.process, self.new.process):
            process.kill()
            process.wait(30)
        if self.server is not None:
            self.server.close()

    def find_wrong(self, samples: list[tuple[float, int]]) -> Iterator[str]:
        """Each promise that was broken, in a sentence."""
        yield from (f"{name}: {n}" for name, n in self.counts.items() if name.startswith("no ans"))
        pairs = sorted(self.stored)
        with Release(self.store, deadline=60) as release:
            keys, state = [key.encode() for key, _ in pairs], release._log.state
            last = last_rows(release.submit(lambda t: t.find([*map(key_name, keys)])), keys)
            arms = np.array([SYSTEMS.index(system) for _, system in pairs], dtype=np.int64)
            rows = standing_rows(state, last[np.arange(len(pairs)), arms])
            for place in np.flatnonzero(rows < 0).tolist():
                yield f"{pairs[place]} was answered with stored=true, and has no such row"
            yield from (f"verify: {each}" for each in release.verify())
        kib = [size for _, size in samples]
        if (fifth := len(kib) // 5) >= 2:
            grown = (np.median(kib[-fifth:]) - np.median(kib[fifth : 2 * fifth])) / 1024
            allowed = GROWTH_MIB + self.counts["answers"] * GROWTH_BYTES_PER_ROW / 2**20
            print(f"memory of a service: {kib[0] / 1024:.0f} MiB; it grew by {grown:.1f} MiB")
            if grown > allowed and samples[-1][0] - samples[0][0] >= GROWTH_SECONDS:
                yield f"a service grew by {grown:.1f} MiB after its warm-up"


async def kill_service(soak: Soak) -> bool:
    """SIGKILL to any service but the first, which is started again."""
    if len(soak.ports) < 2:
        return False
    port = soak.rng.choice(soak.ports[1:])
    soak.processes[port].kill()
    soak.processes[port].wait(30)
    soak.start(port)
    return True


async def freeze_database(soak: Soak) -> bool:
    """No process of PostgreSQL runs for a while; in SQLite another program has the lock."""
    seconds = soak.rng.uniform(0.2, 3.0)
    if soak.server is not None:
        with frozen(server_pids(soak.server)):
            await asyncio.sleep(seconds)
        return True
    with closing(sqlite3.connect(soak.store, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(seconds)
        connection.rollback()
    return True


async def kill_database(soak: Soak) -> bool:
    """PostgreSQL crashes, and is started again a moment later."""
    if soak.server is None:
        return False
    await asyncio.to_thread(soak.server.stop, "immediate")
    await asyncio.sleep(soak.rng.uniform(0.0, 2.0))
    await asyncio.to_thread(soak.server.start)
    return True


async def halt_and_resume(soak: Soak) -> bool:
    """A person halts the release, and resumes it at another service."""
    async with Client(timeout=ANSWER_SECONDS) as client:
        done = await soak.post(client, "/v1/halt", {"reason": "soak"})
        await asyncio.sleep(soak.rng.uniform(0.5, 2.0))
        await soak.post(client, "/v1/resume", {"reason": "soak"})
    return done is not None


async def fail_upstream(soak: Soak) -> bool:
    """The new upstream is killed and started again, or takes requests and does not answer."""
    if soak.rng.random() < 0.5:
        soak.new.kill()
        await asyncio.sleep(soak.rng.uniform(0.0, 2.0))
        soak.new.start()
        return True
    soak.new.process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(soak.rng.uniform(0.2, 3.0))
    soak.new.process.send_signal(signal.SIGCONT)
    return True


DISTURBANCES: dict[str, tuple[float, Callable[[Soak], Awaitable[bool]]]] = {
    "kill a service": (4.0, kill_service),
    "freeze the database": (3.0, freeze_database),
    "kill the database": (2.0, kill_database),
    "halt and resume": (1.0, halt_and_resume),
    "kill or freeze the new upstream": (4.0, fail_upstream),
}
"""What happens at random, with its weight; each says whether it was done."""


def main(minutes: float, store: str, services: int, seed: int = 0, rate: float = 400.0) -> bool:
    """Run, and print what was seen; whether everything holds."""
    soak = Soak(store, services, seed)
    try:
        samples = asyncio.run(soak.run(60 * minutes, rate))
        for process in soak.processes.values():
            process.terminate()
        ended = {process.wait(60) for process in soak.processes.values()}
        wrong = [f"a service ended with {each}" for each in ended - {0, -signal.SIGTERM}]
        wrong += soak.find_wrong(samples)
    finally:
        soak.close()
    shown = ", ".join(f"{1000 * q:.1f}" for q in np.quantile(soak.seconds, [0.5, 0.99, 0.999]))
    print(f"{store}, {services} services, {minutes:g} minutes; p50, p99, p99.9: {shown} ms")
    for name, number in sorted(soak.counts.items()):
        print(f"  {name}: {number:,}")
    for each in wrong[:20]:
        print(f"WRONG: {each}")
    print("ok" if not wrong else f"{len(wrong)} things are wrong; {soak.errors} has the log")
    return not wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--store", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--services", type=int, default=3)
    sys.exit(not main(**vars(parser.parse_args())))
