"""Several processes that act and observe on one store, as ratios to one process in the same run.

    python -m benchmarks.rounds_writers [--seconds 5]

PostgreSQL is started for the occasion if it is installed. Throughput counts rows that were acted
on and observed; the wait is that of a single `act`, 99th percentile.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tether

ALPHA, DEADLINE = 0.3, 60.0


def open_run(url: str) -> tether.Controller:
    return tether.Controller(
        tether.Gaussian(0.0), alpha=ALPHA, store=url, max_silence=None, deadline=DEADLINE
    )


def work(url: str, rows: int, seconds: float, seed: int, ready: Any, results: Any) -> None:
    """Act and observe for a while, from when everyone is ready."""
    rng, done, waits = np.random.default_rng(seed), 0, []
    with open_run(url) as run:
        round_ = run.round
        run.observe(round_.act(1, rng).ids, [0.0])
        ready.wait(timeout=300)
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            begun = time.perf_counter()
            taken = round_.act(rows, rng)
            waits.append(time.perf_counter() - begun)
            run.observe(taken.ids, np.zeros(rows))
            done += rows if time.perf_counter() < until else 0
    results.put((done, waits))


def measure(url: str, rows: int, processes: int, seconds: float) -> tuple[float, float]:
    """Rows per second of all processes together, and the 99th percentile of the waits."""
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(processes), context.Queue()
    children = [
        context.Process(target=work, args=(url, rows, seconds, seed, ready, results))
        for seed in range(processes)
    ]
    for child in children:
        child.start()
    found = [results.get(timeout=300) for _ in children]
    for child in children:
        child.join()
    waits = np.concatenate([waits for _, waits in found])
    return sum(done for done, _ in found) / seconds, float(np.quantile(waits, 0.99))


def compare(name: str, new_url: Any, processes: int, rows: int, seconds: float) -> None:
    speeds = {}
    for count in (1, processes):
        url = new_url()
        with open_run(url) as run:
            run.begin().act(1, np.random.default_rng(0))
        speeds[count] = measure(url, rows, count, seconds)
    ratio = speeds[processes][0] / speeds[1][0]
    print(
        f"{name:<12} {processes} processes, {rows:>5} rows a call: {ratio:5.2f} × one process; "
        f"p99 of act {speeds[1][1]:.3f} s alone, {speeds[processes][1]:.3f} s together",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        names = iter(range(1000))

        def new_file() -> str:
            return str(Path(folder) / f"{next(names)}.db")

        for processes, rows in ((4, 1000), (4, 1), (8, 1)):
            compare("SQLite", new_file, processes, rows, seconds)
        from tests.rounds import postgres_server

        if postgres_server.missing():
            print(f"PostgreSQL: {postgres_server.missing()}")
            return
        server = postgres_server.Server(durable=True)
        try:
            for rows in (1000, 1):
                compare("PostgreSQL", server.database, 4, rows, seconds)
        finally:
            server.close()


if __name__ == "__main__":
    main()
