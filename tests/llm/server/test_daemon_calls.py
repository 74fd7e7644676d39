"""Calls in threads that nobody has to wait for."""

import threading

import pytest

from tether.llm.server.daemon_calls import call_all, ending, is_ending

LONG = 60.0


def test_results_and_errors_come_in_order():
    def fail():
        raise KeyError("no")

    found = call_all([lambda: 1, fail, lambda: 3], 2, threading.Event())
    assert all(each.wait(LONG) for each in found)
    assert (found[0].future.result(), found[2].future.result()) == (1, 3)
    with pytest.raises(KeyError):
        found[1].future.result()
    assert 0 <= found[0].seconds < LONG


def test_what_has_not_begun_when_it_is_abandoned_never_does():
    gate, abandoned = threading.Event(), threading.Event()
    first, second = call_all([lambda: gate.wait(LONG), lambda: 2], 1, abandoned)
    assert not first.wait(0.01)
    assert second.seconds < 0
    abandoned.set()
    gate.set()
    assert first.wait(LONG)
    assert not second.wait(0.05)


def test_threads_do_not_keep_the_process():
    gate = threading.Event()
    call_all([lambda: gate.wait(LONG)], 1, threading.Event())
    assert all(each.daemon for each in threading.enumerate() if each.name == "tether-request")
    gate.set()


def test_ending_is_of_a_block():
    event = threading.Event()
    with ending(event):
        assert not is_ending()
        event.set()
        assert is_ending()
    assert not is_ending()
