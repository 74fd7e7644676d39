"""A service under load whose workers, upstream and database are killed at random, and what holds.

    python -m benchmarks.soak [--minutes 30] [--store postgresql] [--workers 3] [--seed 0]

Checked afterwards: every answer with stored=true is in the store with its system, every other one
is listed there; no key goes back to the old system unless a share fell; no request was without an
answer while a worker was up; memory is flat; and `verify` passes. One worker, the oldest, is never
killed: its memory is measured. Other disturbances are added to `DISTURBANCES`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from tests.runs import postgres_server
from tests.runs.frozen_processes import frozen, server_pids
from tests.service.service_processes import (
    free_port,
    resident_kib,
    wait_until_ready,
    worker_pids,
    write_settings,
)

import tether
from benchmarks.soak_checks import find_growth, find_wrong
from benchmarks.soak_load import Client, Log
from benchmarks.soak_upstreams import UPSTREAM_TABLES, Upstream
from tether.release import ArmCounts

OLD_LOG = {"complaint": ArmCounts(20_000, 400.0)}
CLIENTS = 16
SETTLE_SECONDS = 120


class Soak:
    """A service with workers on a store, and what disturbs it."""

    def __init__(self, store: str, workers: int, seed: int) -> None:
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="tether-soak-")), free_port()
        self.rng, self.log, self.workers = random.Random(seed), Log(), workers
        self.server = postgres_server.Server() if store == "postgresql" else None
        self.store = str(self.folder / "release.db") if self.server is None else ""
        if self.server is not None:
            self.store = self.server.database()
        with tether.Release(
            self.store, {"complaint": 0.3}, old=OLD_LOG, max_silence=None, keys_per_step=4_000
        ):
            pass
        limits = {"answer_within": 0.035, "store_deadline": 1.0}
        self.old, self.new = Upstream("old"), Upstream("new")
        path = write_settings(self.folder, self.port, self.store, workers=workers, **limits)
        upstreams = UPSTREAM_TABLES.format(old=self.old.port, new=self.new.port)
        path.write_text(path.read_text() + upstreams)
        self.errors = self.folder / "log"
        command = [sys.executable, "-m", "tether", "serve", str(path)]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stderr=errors)
        wait_until_ready(self.process, self.port)

    async def run(self, seconds: float, rate: float) -> list[tuple[float, int]]:
        """Load and disturbances; the memory of the oldest worker."""
        ends, samples = asyncio.Event(), list[tuple[float, int]]()
        clients = [Client(n, self.port, self.log, rate / CLIENTS) for n in range(CLIENTS)]
        tasks = [asyncio.create_task(client.run(ends)) for client in clients]
        end = time.monotonic() + seconds
        measuring = asyncio.create_task(self._measure(samples, end))
        while time.monotonic() < end:
            await asyncio.sleep(self.rng.uniform(1.0, 4.0))
            name = self.rng.choices(list(DISTURBANCES), [w for w, _ in DISTURBANCES.values()])[0]
            if await DISTURBANCES[name][1](self):
                self.log.counts[name] += 1
        await measuring
        await asyncio.sleep(2.0)  # undisturbed
        ends.set()
        await asyncio.gather(*tasks)
        await self._settle()
        return samples

    async def ask(self, method: str, path: str, body: str = "") -> bytes:
        """What a worker answers; empty if it cannot be reached."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write((head + kind + body).encode())
            found = await reader.read()
            writer.close()
        except OSError:
            return b""
        return found

    def close(self) -> int:
        """End the service in order; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    async def _measure(self, samples: list[tuple[float, int]], end: float) -> None:
        while time.monotonic() < end:
            pids = worker_pids(self.process.pid)
            if pids:
                samples.append((time.monotonic(), resident_kib(pids[0])))
            await asyncio.sleep(1.0)

    async def _settle(self) -> None:
        """Wait until every worker has listed its answers; each reads its spool four times a second.

        A spool whose worker is gone belongs to the one that was started instead.
        """
        end = time.monotonic() + SETTLE_SECONDS
        calm = 0
        while calm < 20 and time.monotonic() < end:
            found = await self.ask("GET", "/metrics")
            is_calm = b"tether_unstored_waiting 0.0" in found
            calm = calm + 1 if is_calm else 0
            await asyncio.sleep(0.1)


async def kill_worker(soak: Soak) -> bool:
    """SIGKILL to any worker but the oldest, if another one runs."""
    pids = worker_pids(soak.process.pid)
    if len(pids) < 2:
        return False
    os.kill(soak.rng.choice(pids[1:]), signal.SIGKILL)
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
    """A person halts the release, and resumes it at another worker."""
    done = await soak.ask("POST", "/v1/halt", '{"reason": "soak"}')
    await asyncio.sleep(soak.rng.uniform(0.5, 2.0))
    for _ in range(20):
        if b" 200 " in (await soak.ask("POST", "/v1/resume", '{"reason": "soak"}'))[:20]:
            break
        await asyncio.sleep(0.5)
    return b" 200 " in done[:20]


async def kill_upstream(soak: Soak) -> bool:
    """The new upstream is killed, and started again a moment later."""
    soak.new.kill()
    await asyncio.sleep(soak.rng.uniform(0.0, 2.0))
    soak.new.start()
    return True


async def freeze_upstream(soak: Soak) -> bool:
    """The new upstream takes requests for a while, and does not answer."""
    soak.new.send(signal.SIGSTOP)
    await asyncio.sleep(soak.rng.uniform(0.2, 3.0))
    soak.new.send(signal.SIGCONT)
    return True


Disturbance = Callable[[Soak], Awaitable[bool]]
DISTURBANCES: dict[str, tuple[float, Disturbance]] = {
    "kill a worker": (4.0, kill_worker),
    "freeze the database": (3.0, freeze_database),
    "kill the database": (2.0, kill_database),
    "halt and resume": (1.0, halt_and_resume),
    "kill the new upstream": (2.0, kill_upstream),
    "freeze the new upstream": (2.0, freeze_upstream),
}
"""What happens at random, with its weight; each says whether it was done."""


def main(
    minutes: float = 30.0,
    store: str = "postgresql",
    workers: int = 3,
    seed: int = 0,
    rate: float = 400.0,
) -> bool:
    """Run, and print what was seen; whether everything holds."""
    soak = Soak(store, workers, seed)
    try:
        samples = asyncio.run(soak.run(60 * minutes, rate))
        status = soak.close()
        is_in_order = status in (0, -signal.SIGTERM)
        wrong = [] if is_in_order else [f"the service ended with status {status}"]
        answers = sum(map(len, soak.log.answers.values()))
        wrong += find_wrong(soak.store, soak.log)
        wrong += find_growth(samples, answers)
    finally:
        soak.process.kill()
        soak.old.kill()
        soak.new.kill()
        if soak.server is not None:
            soak.server.close()
    quantiles = np.quantile(soak.log.seconds, [0.5, 0.99, 0.999])
    shown = ", ".join(f"{1000 * each:.1f}" for each in quantiles)
    late = float(np.mean(np.array(soak.log.seconds) > 0.05))
    print(
        f"{store}, {workers} workers, {minutes:g} minutes: {answers:,} answers for "
        f"{len(soak.log.answers):,} keys; p50, p99 and p99.9: {shown} ms; {late:.2%} over 50 ms"
    )
    for name, number in sorted(soak.log.counts.items()):
        print(f"  {name}: {number:,}")
    for each in wrong[:20]:
        print(f"WRONG: {each}")
    print("ok" if not wrong else f"{len(wrong)} things are wrong; {soak.errors} has the log")
    return not wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--store", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=400.0)
    given = parser.parse_args()
    sys.exit(not main(**vars(given)))
