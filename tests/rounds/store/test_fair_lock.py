"""Threads get the lock in the order in which they asked, and one at a time."""

import threading
import time

import pytest

from tether.rounds.store.fair_lock import FairLock

LONG = 600.0


def test_it_is_free_held_and_free_again():
    lock = FairLock()
    for _ in range(2):
        assert lock.acquire(0)
        assert not lock.acquire(0)
        assert not lock.acquire(0.001)
        lock.release()


def test_threads_come_in_the_order_of_arrival():
    lock, order = FairLock(), []
    lock.acquire(0)

    def work(number):
        assert lock.acquire(LONG)
        order.append(number)
        lock.release()

    threads = []
    for number in range(20):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        while len(lock._waiting) <= number:
            time.sleep(0.0001)
    lock.release()
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_one_thread_at_a_time_also_when_some_give_up():
    lock, inside, most = FairLock(), [], []

    def work(seconds):
        for _ in range(300):
            if lock.acquire(seconds):
                inside.append(None)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()
                lock.release()

    threads = [threading.Thread(target=work, args=(s,)) for s in (LONG, LONG, 1e-5, 1e-4, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert lock.acquire(0)
    assert not lock._waiting


@pytest.mark.parametrize("handed_over", [False, True])
def test_an_interrupted_wait_leaves_the_line(monkeypatch, handed_over):
    lock = FairLock()
    lock.acquire(0)

    class Interrupted:
        def acquire(self, timeout=None):
            if timeout is not None:
                if handed_over:
                    lock.release()
                raise KeyboardInterrupt

        def release(self):
            pass

    monkeypatch.setattr("tether.rounds.store.fair_lock.Lock", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(LONG)
    if not handed_over:
        lock.release()
    assert not lock._waiting
    assert lock.acquire(0)
