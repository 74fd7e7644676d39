"""What must hold after a soak, from what clients were told and what the store has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import numpy as np

from benchmarks.soak_load import Answer, Log
from tether.rounds import read_release, verify_store
from tether.rounds.releases.key_rows import read_key_rows
from tether.rounds.releases.release_history import ReleaseHistory
from tether.rounds.releases.unstored_answers import read_unstored
from tether.rounds.store.database import Store

COMMIT_SECONDS = 15.0
"""How long before its commit a halt or a step may have noted its time: the store may be frozen."""
GROWTH_MIB, GROWTH_BYTES_PER_ROW = 32.0, 16.0
"""How much a worker may grow after its warm-up: a little, and the step of every row, which it keeps
to begin the next one."""
MIN_GROWTH_SECONDS = 600.0
"""A shorter run is warm-up: a worker reaches its size within a few minutes."""


def find_wrong(store: str, log: Log) -> Iterator[str]:
    """Each promise that was broken, in a sentence."""
    if missing := {name: n for name, n in log.counts.items() if name.startswith("no answer")}:
        yield f"requests without an answer: {missing}"
    opened = Store(store, create=False)
    try:
        with opened.reading(patience=60) as connection:
            rows = read_key_rows(connection, [key.encode() for key in log.answers])
            listed = Counter(read_unstored(connection))
    finally:
        opened.close()
    unstored = 0
    for key, answers in log.answers.items():
        lost = {a.system for a in answers if a.stored} - rows.get(key.encode(), {}).keys()
        if lost:
            yield f"{key!r} was answered by {lost} with stored=true, and has no such row"
        without = sum(not each.stored for each in answers)
        unstored += without
        if without > listed[key]:
            yield f"{key!r} was answered {without} times without the store, {listed[key]} listed"
    log.counts["answers without the store"] = unstored
    history = read_release(store)
    yield from find_flips(history, log)
    found = verify_store(store)
    if not found.ok:
        yield f"verify: {found}"


def find_flips(history: ReleaseHistory, log: Log) -> Iterator[str]:
    """Keys that went back to the old system although nothing has lowered the share.

    Of two answers for a key, one after the other and both stored, the first "new" and the second
    "old": between them, or shortly before the first, an alarm was raised or a smaller share began.
    """
    steps = history.steps
    falls = [_seconds(each.raised) for each in history.alarms]
    falls += [
        _seconds(after.begun)
        for before, after in pairwise(steps)
        if after.calibration.share < before.calibration.share
    ]
    moments = np.sort(np.array(falls, dtype=float))
    for key, answers in log.answers.items():
        stored = [each for each in answers if each.stored]
        for first, second in pairwise(stored):
            if (first.system, second.system) == ("new", "old"):
                log.counts["keys back to the old system"] += 1
                if not _is_between(moments, first, second):
                    yield f"{key!r} went from new to old at {second.received}, and no share fell"


def _is_between(moments: np.ndarray, first: Answer, second: Answer) -> bool:
    begin = np.searchsorted(moments, first.sent - COMMIT_SECONDS)
    return bool(begin < np.searchsorted(moments, second.received))


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def find_growth(samples: list[tuple[float, int]], rows: int) -> Iterator[str]:
    """A worker whose memory grows: from the median of the second fifth to that of the last."""
    kib = [size for _, size in samples]
    fifth = len(kib) // 5
    if fifth < 2:
        return
    grown = (np.median(kib[-fifth:]) - np.median(kib[fifth : 2 * fifth])) / 1024
    allowed = GROWTH_MIB + rows * GROWTH_BYTES_PER_ROW / 2**20
    print(f"memory of a worker: {kib[0] / 1024:.0f} MiB, then {kib[-1] / 1024:.0f}", end="; ")
    print(f"after its warm-up it grew by {grown:.1f} MiB (at most {allowed:.1f})")
    if grown > allowed and samples[-1][0] - samples[0][0] >= MIN_GROWTH_SECONDS:
        yield f"a worker grew by {grown:.1f} MiB after its warm-up"
