"""Deadlines nest, pass, and are those of one thread."""

import math
import threading
import time

import pytest

from tether.rounds.store import deadline


def test_without_a_deadline_there_is_no_end():
    assert deadline.remaining() == math.inf
    assert not deadline.passed()


def test_a_deadline_passes_and_says_so():
    with deadline.within(1e-9):
        time.sleep(0.001)
        assert deadline.passed()
        assert deadline.remaining() == 0
        assert deadline.message() == "no answer within the deadline of 1e-09 s"
    assert not deadline.passed()


def test_the_earliest_of_nested_deadlines_counts():
    with deadline.within(100), deadline.within(1000):
        assert 0 < deadline.remaining() <= 100
        assert "100 s" in deadline.message()
        with deadline.within(10), deadline.within(None):
            assert 0 < deadline.remaining() <= 10
        assert deadline.remaining() > 10


def test_a_default_holds_only_where_nothing_was_said():
    with deadline.by_default(100):
        assert deadline.remaining() <= 100
        with deadline.by_default(1):
            assert deadline.remaining() > 1
    with deadline.within(None), deadline.by_default(1):
        assert deadline.remaining() == math.inf


def test_a_deadline_is_reset_when_the_block_fails():
    with pytest.raises(RuntimeError), deadline.within(1):
        raise RuntimeError
    assert deadline.remaining() == math.inf


def test_another_thread_has_no_deadline():
    seen = []
    with deadline.within(1):
        thread = threading.Thread(target=lambda: seen.append(deadline.remaining()))
        thread.start()
        thread.join()
    assert seen == [math.inf]


@pytest.mark.parametrize("seconds", [0, -1, math.nan])
def test_a_deadline_is_above_zero(seconds):
    with pytest.raises(ValueError, match=f"seconds must be above 0, .* got {seconds}"):
        with deadline.within(seconds):
            pass
