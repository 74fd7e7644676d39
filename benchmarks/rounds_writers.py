"""Several processes that act and observe on one store, as ratios to one process in the same run.

    python -m benchmarks.rounds_writers [--seconds 5]

PostgreSQL is started for the occasion if it is installed, with fsync. Throughput counts rows that
were acted on and observed; the wait is that of a single `act`, 99th percentile. Clients and server
share the cores of one machine. What those cores allow, if nobody ever waited, is printed beside
each ratio, from the processor seconds that a row costs. Other work on the machine changes
everything: its load is printed first.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.runs import postgres_server
from tests.runs.frozen_processes import server_pids

import tether

ALPHA, DEADLINE, SECONDS = 0.3, 60.0, 5.0


def open_run(url: str) -> tether.Controller:
    return tether.Controller(
        tether.Gaussian(0.0), alpha=ALPHA, store=url, max_silence=None, deadline=DEADLINE
    )


def work(url: str, rows: int, seconds: float, seed: int, gate: Any, results: Any) -> None:
    """Act and observe for a while, from when everyone is ready."""
    rng, done, waits = np.random.default_rng(seed), 0, []
    with open_run(url) as run:
        round_ = run.round
        run.observe(round_.act(1, rng).ids, [0.0])
        gate.wait(timeout=300)
        until, processor = time.perf_counter() + seconds, time.process_time()
        while time.perf_counter() < until:
            begun = time.perf_counter()
            taken = round_.act(rows, rng)
            waits.append(time.perf_counter() - begun)
            run.observe(taken.ids, np.zeros(rows))
            done += rows if time.perf_counter() < until else 0
        results.put((done, time.process_time() - processor, waits))
        gate.wait(timeout=300)


@dataclass(frozen=True)
class Measured:
    """Rows per second of all processes together, and the 99th percentile of the waits.

    `client` and `server` are processor seconds per 1,000 rows.
    """

    speed: float
    wait: float
    client: float
    server: float

    @property
    def busy(self) -> float:
        """How many cores were busy on average."""
        return (self.client + self.server) * self.speed / 1000


def measure(
    url: str, rows: int, processes: int, seconds: float, server_seconds: Callable[[], float]
) -> Measured:
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(processes + 1), context.Queue()
    children = [
        context.Process(target=work, args=(url, rows, seconds, seed, gate, results))
        for seed in range(processes)
    ]
    for child in children:
        child.start()
    gate.wait(timeout=300)
    server = server_seconds()
    found = [results.get(timeout=300) for _ in children]
    server = server_seconds() - server
    gate.wait(timeout=300)
    for child in children:
        child.join()
    done = sum(each for each, _, _ in found)
    waits = np.concatenate([waits for _, _, waits in found])
    client = sum(processor for _, processor, _ in found)
    share = 1000 / max(done, 1)
    return Measured(done / seconds, float(np.quantile(waits, 0.99)), client * share, server * share)


def compare(
    name: str,
    new_url: Callable[[], str],
    processes: int,
    rows: int,
    seconds: float,
    server_seconds: Callable[[], float] = lambda: 0.0,
) -> None:
    """One process and several, and what the cores of this machine allow."""
    found = {}
    for count in (1, processes):
        url = new_url()
        with open_run(url) as run:
            run.begin().act(1, np.random.default_rng(0))
        found[count] = measure(url, rows, count, seconds, server_seconds)
    one, several, cores = found[1], found[processes], len(os.sched_getaffinity(0))
    print(
        f"{name:<12} {processes} processes, {rows:>5} rows a call: "
        f"{several.speed / one.speed:5.2f} × one process ({one.speed:,.0f} rows/s); "
        f"p99 of act {one.wait:.3f} s alone, {several.wait:.3f} s together"
    )
    for what, each in (("one", one), (f"{processes}", several)):
        print(
            f"{'':<12}   {what:>3}: {each.client:.3f} s client and {each.server:.3f} s server per "
            f"1,000 rows, {each.busy:.2f} of {cores} cores busy"
        )
    ceiling = cores / ((several.client + several.server) / 1000 * one.speed)
    print(f"{'':<12}   at this cost {cores} cores allow {ceiling:.2f} ×", flush=True)


def processor_seconds(server: postgres_server.Server) -> float:
    """Of all processes of a PostgreSQL server so far."""
    spent, ticks = 0, os.sysconf("SC_CLK_TCK")
    for pid in server_pids(server):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            spent += int(fields[11]) + int(fields[12])
    return spent / ticks


def main(seconds: float = SECONDS) -> None:
    print(f"load of the machine before: {os.getloadavg()[0]:.2f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(1000))

        def new_file() -> str:
            return str(Path(folder) / f"{next(names)}.db")

        for processes, rows in ((4, 1000), (4, 1), (8, 1)):
            compare("SQLite", new_file, processes, rows, seconds)
        if postgres_server.missing():
            print(f"PostgreSQL: {postgres_server.missing()}")
            return
        server = postgres_server.Server(durable=True)
        try:
            for rows in (1000, 1):
                spent = partial(processor_seconds, server)
                compare("PostgreSQL", server.database, 4, rows, seconds, spent)
        finally:
            server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    main(parser.parse_args().seconds)
