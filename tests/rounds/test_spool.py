"""Rows wait in the spool until they are delivered: none lost, none twice, numbers without gaps."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.rounds.frozen_processes import PATIENCE_SECONDS
from tether.rounds import StoreError, spool
from tether.rounds.spool import Spool


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.spool"


def columns(number, count):
    return {"actions": np.full(count, float(number)), "context": b"\x00\x01", "name": "safe"}


def numbers(found):
    return [(record.number, record.first, record.count) for record in found.read()]


def test_records_come_back_in_order_with_the_numbers_of_their_rows(path):
    with Spool(path, lane=7) as found:
        for number, count in enumerate((3, 1, 4), start=1):
            record = found.append(columns(number, count), count)
            assert record.number == number
        assert found.next_row == 9
    with Spool(path) as found:
        assert found.lane == 7
        assert numbers(found) == [(1, 1, 3), (2, 4, 1), (3, 5, 4)]
        for record in found.read():
            assert record.columns["context"] == b"\x00\x01"
            assert record.columns["name"] == "safe"
            np.testing.assert_array_equal(
                record.columns["actions"], np.full(record.count, float(record.number))
            )
        assert found.append(columns(4, 2), 2).first == 9
        assert found.waiting == 4


def test_delivered_records_stay_delivered(path):
    with Spool(path, lane=0) as found:
        for number in range(1, 6):
            found.append(columns(number, 1), 1)
        found.mark_delivered(2)
        found.mark_delivered(2)
        found.mark_delivered(1)
        found.mark_delivered(0)
        assert [record.number for record in found.read()] == [3, 4, 5]
    size = path.stat().st_size
    with Spool(path) as found:
        found.mark_delivered(2)
        assert [record.number for record in found.read()] == [3, 4, 5]
        assert path.stat().st_size == size
        found.mark_delivered(5)
        assert found.waiting == 0
        assert found.append(columns(6, 1), 1).number == 6
    with Spool(path) as found:
        assert numbers(found) == [(6, 6, 1)]


def test_records_that_are_delivered_while_they_are_read_are_left_out(path):
    with Spool(path, lane=0) as found:
        for number in range(1, 5):
            found.append(columns(number, 1), 1)
        reading = found.read()
        assert next(reading).number == 1
        found.mark_delivered(3)
        found.append(columns(5, 1), 1)
        assert [record.number for record in reading] == [4]


@pytest.mark.parametrize("upto", [-1, 2])
def test_only_known_records_can_be_delivered(path, upto):
    with Spool(path, lane=0) as found:
        found.append(columns(1, 1), 1)
        with pytest.raises(ValueError, match=f"upto must be from 0 to 1, got {upto}"):
            found.mark_delivered(upto)


def test_a_large_spool_is_renewed_once_all_is_delivered_and_goes_on_counting(path, monkeypatch):
    monkeypatch.setattr(spool, "SPOOL_RENEWAL_BYTES", 1000)
    with Spool(path, lane=3) as found:
        for number in range(1, 21):
            found.append(columns(number, 2), 2)
        found.mark_delivered(19)
        assert path.stat().st_size > 1000
        found.mark_delivered(20)
        assert path.stat().st_size < 200
        assert numbers(found) == []
        assert found.append(columns(21, 2), 2).first == 41
    with Spool(path, lane=3) as found:
        assert numbers(found) == [(21, 41, 2)]
        found.mark_delivered(21)


def test_a_renewal_that_fails_loses_nothing(path, monkeypatch):
    monkeypatch.setattr(spool, "SPOOL_RENEWAL_BYTES", 0)
    with Spool(path, lane=3) as found:
        found.append(columns(1, 2), 2)

        def fail(*_):
            raise OSError("no space")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fail)
            found.mark_delivered(1)
        assert found.append(columns(2, 2), 2).first == 3
    with Spool(path, lane=3) as found:
        assert numbers(found) == [(2, 3, 2)]


@pytest.mark.parametrize("lane", [-1, 2**63])
def test_a_lane_is_a_64_bit_number(path, lane):
    with pytest.raises(ValueError, match="lane must be an integer from 0 to"):
        Spool(path, lane=lane)
    assert not path.exists()


def test_a_spool_keeps_its_lane(path):
    Spool(path, lane=2**63 - 1).close()
    with pytest.raises(ValueError, match=f"lane must be {2**63 - 1}, as in the spool .*, got 5"):
        Spool(path, lane=5)
    assert Spool(path).lane == 2**63 - 1


def test_a_new_spool_needs_a_lane(path):
    with pytest.raises(StoreError, match="could not open the spool"):
        Spool(path)


@pytest.mark.parametrize("content", [b"", b"short", b"SQLite format 3\0" * 100])
@pytest.mark.parametrize("lane", [None, 1])
def test_a_file_that_is_not_a_spool_is_refused_and_left_as_it_is(path, content, lane):
    path.write_bytes(content)
    if lane and not content:  # an empty file may become a spool
        assert Spool(path, lane=lane).lane == 1
        return
    with pytest.raises(StoreError, match="is not a spool of tether"):
        Spool(path, lane=lane)
    assert path.read_bytes() == content


def test_a_spool_that_was_torn_while_it_was_created_is_created_again(path):
    Spool(path, lane=9).close()
    header = path.read_bytes()
    for length in range(len(header)):
        path.write_bytes(header[:length])
        with Spool(path, lane=9) as found:
            assert found.lane == 9
        assert path.read_bytes() == header


def test_records_out_of_order_are_an_error(path):
    with Spool(path, lane=0) as found:
        start = path.stat().st_size
        for number in (1, 2):
            found.append(columns(number, 1), 1)
    content = path.read_bytes()
    size = (len(content) - start) // 2
    path.write_bytes(content[:start] + content[start + size :])
    with pytest.raises(StoreError, match="is record 2 where record 1 belongs"):
        Spool(path)
    path.write_bytes(content + content[start + size :])
    with pytest.raises(StoreError, match="is record 2 where record 3 belongs"):
        Spool(path)


def test_damage_while_it_is_open_is_noticed(path):
    with Spool(path, lane=0) as found:
        found.append(columns(1, 1), 1)
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(bytes(content))
        with pytest.raises(StoreError, match=r"record 1 of the spool .* is damaged"):
            list(found.read())


@pytest.mark.parametrize("count", [0, -3])
def test_a_record_has_rows(path, count):
    with Spool(path, lane=0) as found, pytest.raises(ValueError, match="count must be at least 1"):
        found.append({}, count)


def test_threads_append_and_deliver_side_by_side(path):
    delivered = []
    with Spool(path, lane=0) as found:

        def append():
            for _ in range(50):
                found.append(columns(1, 3), 3)

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        while len(delivered) < 200:
            for record in found.read():
                delivered.append(record.first)
                found.mark_delivered(record.number)
        for thread in threads:
            thread.join()
        assert found.waiting == 0
    assert delivered == list(range(1, 601, 3))


LIMITED = """
import resource, sys
from tether.rounds import StoreError
from tether.rounds.spool import Spool

path = sys.argv[1]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with Spool(path, lane=1) as found:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        while True:
            found.append({"x": bytes(777)}, 2)
    except StoreError as error:
        print(error)
    kept = found.waiting
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    found.append({"x": bytes(777)}, 2)
with Spool(path) as found:
    numbers = [(record.number, record.first) for record in found.read()]
assert numbers == [(k + 1, 2 * k + 1) for k in range(kept + 1)], numbers
"""


def test_a_file_that_may_not_grow_is_a_readable_error_and_stays_whole(path):
    pytest.importorskip("resource")
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"could not write to the spool {path}: File too large\n"


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
