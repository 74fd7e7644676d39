"""Writers of one SQLite store come in the order of their tickets, whoever dies or freezes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from tests.rounds.frozen_processes import PATIENCE_SECONDS, frozen
from tether.rounds.store import deadline, writer_queue
from tether.rounds.store.writer_queue import WriterQueue

CHILD = """
import sys
from tether.rounds.store import writer_queue
from tether.rounds.store.writer_queue import WriterQueue
writer_queue.QUEUE_PATIENCE_SECONDS = writer_queue.TICKET_PATIENCE_SECONDS = 60
queue = WriterQueue(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:  # one turn for each line; it ends with the following line
    with queue.turn() as is_turn:
        print("turn" if is_turn else "past", flush=True)
        sys.stdin.readline()
    print("done", flush=True)
"""


class Writer:
    """Another process that takes turns when it is told to."""

    def __init__(self, store):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.hear() == "ready"

    def ask(self):
        """Begin to wait for a turn."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    end = ask

    def hear(self):
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "run.db"
    path.touch()
    return path


@pytest.fixture
def writers(store):
    made = []

    def make():
        made.append(Writer(store))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


def tickets(store):
    """How many tickets have been drawn."""
    path = store.with_name("run.db-queue")
    return int.from_bytes(path.read_bytes()[:8], "little") if path.exists() else 0


def ask_and_wait_for_ticket(writer, store):
    before = tickets(store)
    writer.ask()
    wait_until(lambda: tickets(store) > before)


def wait_until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(writer_queue, "QUEUE_PATIENCE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(writer_queue, "TICKET_PATIENCE_SECONDS", PATIENCE_SECONDS)


def test_threads_take_turns_one_at_a_time(store, patient):
    queue, inside, most = WriterQueue(store), [], []

    def work():
        for _ in range(50):
            with queue.turn() as is_turn:
                assert is_turn
                inside.append(None)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 200
    assert max(most) == 1
    assert tickets(store) == 200


def test_a_writer_waits_for_the_process_that_came_before(store, patient, writers):
    other = writers()
    other.ask()
    assert other.hear() == "turn"
    order = []

    def work():
        with WriterQueue(store).turn() as is_turn:
            order.append(("mine", is_turn))

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: tickets(store) == 2)
    time.sleep(0.05)
    assert order == []
    other.end()
    assert other.hear() == "done"
    thread.join()
    assert order == [("mine", True)]


def test_processes_come_in_the_order_of_their_tickets(store, patient, writers):
    waiting = [writers() for _ in range(4)]
    with WriterQueue(store).turn():
        for writer in waiting:
            ask_and_wait_for_ticket(writer, store)
    for writer in waiting:
        assert writer.hear() == "turn"
        writer.end()
        assert writer.hear() == "done"


def test_a_writer_that_dies_in_its_turn_or_in_the_queue_holds_nobody_up(store, patient, writers):
    first, second = writers(), writers()
    first.ask()
    assert first.hear() == "turn"
    ask_and_wait_for_ticket(second, store)
    second.close()  # while it waits
    thread = threading.Thread(target=first.close)  # and then the one that writes
    thread.start()
    with WriterQueue(store).turn() as is_turn:
        assert is_turn
    thread.join()


def test_a_frozen_writer_is_passed_by_and_waited_for_only_once(store, monkeypatch, writers):
    monkeypatch.setattr(writer_queue, "TICKET_PATIENCE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(writer_queue, "QUEUE_PATIENCE_SECONDS", 0.05)
    other = writers()
    other.ask()
    assert other.hear() == "turn"
    with frozen([other.process.pid]):
        queue = WriterQueue(store)
        with queue.turn() as is_turn:
            assert not is_turn
        monkeypatch.setattr(writer_queue, "QUEUE_PATIENCE_SECONDS", PATIENCE_SECONDS)
        with queue.turn() as is_turn:
            assert is_turn
    other.end()
    assert other.hear() == "done"
    with queue.turn() as is_turn:
        assert is_turn


def test_nobody_waits_past_the_deadline(store, patient, writers):
    queue, other = WriterQueue(store), writers()
    other.ask()
    assert other.hear() == "turn"
    with deadline.within(0.05), queue.turn() as is_turn:
        assert not is_turn
    entered = threading.Event()

    def hold():
        with deadline.within(0.2), queue.turn():
            entered.set()

    thread = threading.Thread(target=hold)
    thread.start()
    with deadline.within(0.001), queue.turn() as is_turn:  # behind a thread that waits
        assert not is_turn
    thread.join()
    other.end()
    assert other.hear() == "done"
    with queue.turn() as is_turn:  # one that gave up has not let others past those before it
        assert is_turn


def test_a_queue_that_cannot_be_used_lets_everyone_past(tmp_path, store, monkeypatch):
    with WriterQueue(tmp_path / "no such folder" / "run.db").turn() as is_turn:
        assert not is_turn
    path = store.with_name("run.db-queue")
    path.symlink_to(tmp_path / "elsewhere")
    with WriterQueue(store).turn() as is_turn:
        assert not is_turn
    assert not (tmp_path / "elsewhere").exists()
    path.unlink()

    def fail(*_):
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.lockf", fail)
    with WriterQueue(store).turn() as is_turn:
        assert not is_turn


def test_a_ticket_that_nobody_can_draw_is_given_up(store, monkeypatch, writers):
    monkeypatch.setattr(writer_queue, "TICKET_PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(writer_queue._Place, "_lock", lambda *_, **__: False)
    with WriterQueue(store).turn() as is_turn:
        assert not is_turn


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 16, b"\0" * 8 + b"\xff" * 8, b"y" * 99])
def test_any_content_of_the_file_gives_turns(store, patient, content):
    store.with_name("run.db-queue").write_bytes(content)
    queue = WriterQueue(store)
    for _ in range(3):
        with queue.turn() as is_turn:
            assert is_turn


def test_the_file_has_the_permissions_of_the_store(store):
    store.chmod(0o600)
    with WriterQueue(store).turn():
        pass
    mode = store.with_name("run.db-queue").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_an_error_in_the_turn_ends_it(store, patient):
    queue = WriterQueue(store)
    with pytest.raises(ZeroDivisionError), queue.turn():
        raise ZeroDivisionError
    with queue.turn() as is_turn:
        assert is_turn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_child_process_starts_outside_of_its_parents_turn(store):
    script = (
        "import os, sys\n"
        "from tether.rounds.store.writer_queue import WriterQueue\n"
        "from tether.rounds.store import deadline\n"
        "queue = WriterQueue(sys.argv[1])\n"
        "turn = queue.turn()\n"
        "turn.__enter__()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    with deadline.within(0.2), queue.turn() as is_turn:\n"
        "        os._exit(7 if is_turn else 8)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n"
        "turn.__exit__(None, None, None)\n"
        "with queue.turn() as is_turn:\n"
        "    sys.exit(status if is_turn else 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(store)], timeout=PATIENCE_SECONDS)
    assert done.returncode == 8  # it waited for its parent, and did not wait for itself
