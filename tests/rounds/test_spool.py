"""Rows wait in the spool until they are delivered: none lost, none twice, numbers without gaps."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import pytest

from tests.rounds.frozen_processes import PATIENCE_SECONDS
from tether.rounds.spool import Spool


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.spool"


def numbers(found):
    return [(record.number, record.first, record.count) for record in found.read()]


LIVES = """
import json, os, random, signal, sqlite3, sys, time, traceback
import numpy as np
from tether.rounds import spool
from tether.rounds.spool import Spool

path, store, journal = sys.argv[1:]
spool.SPOOL_RENEWAL_BYTES = 500
steps_left = -1


def counted(function):
    def step(*given):  # killed before one of these calls, or after the last one
        global steps_left
        steps_left -= 1
        if steps_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given)
    return step


write = os.pwrite
os.pwrite = counted(lambda file, content, place: write(file, content[:512], place))
for name in ("fsync", "ftruncate", "write", "replace", "close"):
    setattr(os, name, counted(getattr(os, name)))


def live(seed, said, steps):
    global steps_left
    rng = random.Random(seed)
    connection = sqlite3.connect(store, timeout=60)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("CREATE TABLE IF NOT EXISTS rows (number PRIMARY KEY, record)")
    log = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    steps_left = steps
    size = os.path.getsize(path) if os.path.exists(path) else 0
    found = Spool(path, lane=5)
    if os.path.getsize(path) < size:
        write_torn(said)
    while True:
        for _ in range(rng.randrange(1, 4)):
            count = rng.randrange(1, 5)
            record = found.append({"x": np.arange(rng.choice([0, 3, 50, 1_000]))}, count)
            line = json.dumps([record.number, record.first, count])
            os.write(log, line.encode() + b"\\n")
            os.write(said, b".")
        for record in found.read():
            with connection:  # delivered again after a crash: the same numbers, ignored
                rows = [(record.first + k, record.number) for k in range(record.count)]
                connection.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?)", rows)
            found.mark_delivered(record.number)
            if rng.random() < 0.1:
                break


def write_torn(said):
    os.write(said, b"t")


killed = torn = 0
for seed in range(70):
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            live(seed, said, 1 + 2 * seed if seed < 60 else -1)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(said)
    if seed >= 60:  # from outside, at any time after a first record
        while (said := os.read(heard, 1)) not in (b".", b""):
            torn += said.count(b"t")
        time.sleep(random.Random(seed).uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
    while said := os.read(heard, 65536):
        torn += said.count(b"t")
    os.close(heard)
    killed += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
print(json.dumps([killed, torn]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_nothing_that_was_confirmed_is_lost_or_doubled_by_kill_9(path, tmp_path):
    """Lives append, deliver and mark until they are killed; in the end each row is there once."""
    script = tmp_path / "lives.py"
    script.write_text(LIVES)
    store, journal = tmp_path / "store.db", tmp_path / "journal"
    command = [sys.executable, str(script), str(path), str(store), str(journal)]
    done = subprocess.run(command, timeout=10 * PATIENCE_SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    killed, torn = json.loads(done.stdout)
    assert killed == 70, done.stderr
    assert torn > 10
    confirmed = [json.loads(line) for line in journal.read_text().splitlines()]
    with Spool(path) as found:
        left = {
            record.first + k: record.number for record in found.read() for k in range(record.count)
        }
        end = found.next_row
    connection = sqlite3.connect(store)
    stored = dict(connection.execute("SELECT number, record FROM rows"))
    connection.close()
    assert all(stored[number] == record for number, record in left.items() if number in stored)
    every = {**left, **stored}
    assert sorted(every) == list(range(1, end))  # no gaps, nothing lost
    assert len(confirmed) > killed
    for record, first, count in confirmed:
        assert [every[first + k] for k in range(count)] == [record] * count
    assert len({first for _, first, _ in confirmed}) == len(confirmed)
