"""What several processes do at once to one release, or one process until it is killed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import tether
from tests.rounds.child_processes import DEADLINE_SECONDS
from tests.rounds.worker_process import Journal, _tripwire
from tether.release import ArmCounts

RELEASE = {
    "guardrails": {"complaint": 0.2},
    "promise": True,  # whose shares are computed, and verified, much faster
    "old": {"complaint": ArmCounts(200, 20.0)},
    "keys_per_step": 30,
    "max_silence": None,
    "salt": b"of these tests",
}
KEYS = [f"key {k}" for k in range(80)]
BATCHES = 6


def open_release(url: str) -> tether.Release:
    """The release, as every process of these tests opens it."""
    return tether.Release(url, deadline=60, **RELEASE)


def loss_of(key: str) -> float:
    """The loss of a key, whoever answers it."""
    return float(int(key.split()[1]) % 10 == 0)


def warm_up() -> None:
    """Go through a step once, so that children need not import anything."""
    with open_release("sqlite://") as release:
        release.assign(KEYS)
        release.observe(KEYS[:5], [0.0] * 5)
        release.history()


def assign_all(url: str, journal: str, gate: str, seed: int) -> None:
    """Assign the same keys as others at the same time, one by one and in an order of one's own."""
    notes, rng = Journal(journal), np.random.default_rng(seed)
    with open_release(url) as release:
        notes.write("ready")
        started = time.monotonic()
        while not Path(gate).exists():
            assert time.monotonic() - started < DEADLINE_SECONDS
            time.sleep(0.002)
        for key in rng.permutation(KEYS).tolist():
            notes.write("assigned", key=key, system=release.assign(key))


def assign_batches(url: str, journal: str, gate: str, seed: int, threads: int) -> None:
    """Assign the same new keys as others at the same time, in batches and orders of one's own."""
    notes = Journal(journal)
    with open_release(url) as release:
        notes.write("ready")
        started = time.monotonic()
        while not Path(gate).exists():
            assert time.monotonic() - started < DEADLINE_SECONDS
            time.sleep(0.002)

        def work(thread: int) -> None:
            rng = np.random.default_rng([seed, thread])
            for batch in range(BATCHES):
                keys = rng.permutation(batch_keys(batch)).tolist()
                notes.write("assigned", keys=keys, systems=release.assign(keys))

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))


def batch_keys(batch: int) -> list[str]:
    """The keys of a batch, half of which are those of the batch before."""
    return [f"key {30 * batch + k}" for k in range(60)]


def ramp(url: str, journal: str, first: int, trip: int) -> None:
    """Assign and observe, and be killed at that point: around a statement or a commit."""
    notes = Journal(journal)
    release = open_release(url)
    _tripwire(trip, commits=False)
    for begin in range(first, first + 100, 25):
        keys = [f"key {k}" for k in range(begin, begin + 25)]
        for key, system in zip(keys, release.assign(keys), strict=True):
            notes.write("assigned", key=key, system=system)
        release.observe(keys, [loss_of(key) for key in keys])
        notes.write("observed", keys=keys)
