"""Blocks are cut by length alone, and what they give comes back in their order."""

import threading

import numpy as np
import pytest

from tether._core import blocks
from tether._core.blocks import THREADS_VARIABLE, map_blocks, thread_limit


@pytest.mark.parametrize("threads", ["1", "2", "3", "7"])
@pytest.mark.parametrize("rows", [1, 2, 9, 10, 11, 100])
def test_blocks_cover_all_rows_once_and_in_order(monkeypatch, threads, rows):
    monkeypatch.setenv(THREADS_VARIABLE, threads)
    found = map_blocks(lambda block: list(range(rows))[block], rows, block_rows=2)
    assert [row for part in found for row in part] == list(range(rows))
    assert all(len(part) == 2 for part in found[:-1])


def test_no_rows_are_no_blocks():
    assert map_blocks(lambda block: 1 / 0, 0) == []


def test_several_threads_work_at_the_same_time(monkeypatch):
    """Each waits until the other has come: one thread alone would never leave the barrier."""
    monkeypatch.setenv(THREADS_VARIABLE, "2")
    barrier = threading.Barrier(2, timeout=60)
    names = map_blocks(
        lambda block: barrier.wait() >= 0 and threading.current_thread().name,
        2 * blocks.BLOCKS_PER_THREAD,
        block_rows=1,
    )
    assert len(set(names)) == 2


def test_few_blocks_stay_on_the_calling_thread(monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "8")
    rows = 2 * blocks.BLOCKS_PER_THREAD - 1
    names = map_blocks(lambda block: threading.current_thread().name, rows, block_rows=1)
    assert set(names) == {threading.current_thread().name}


def test_an_error_on_a_thread_is_raised(monkeypatch):
    monkeypatch.setenv(THREADS_VARIABLE, "2")

    def fail(block: slice) -> None:
        if block.start == 13:
            raise ValueError("row 13")

    with pytest.raises(ValueError, match="row 13"):
        map_blocks(fail, 20, block_rows=1)
    assert not [each for each in threading.enumerate() if each.name.startswith("tether-blocks")]


def test_sums_of_blocks_have_the_same_bits_on_any_number_of_threads(monkeypatch):
    values = np.random.default_rng(0).lognormal(sigma=9, size=10_000)
    sums = set()
    for threads in ("1", "2", "5"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        sums.add(sum(map_blocks(lambda block: float(values[block].sum()), len(values), 100)))
    assert len(sums) == 1


@pytest.mark.parametrize("stated", ["0", "-1", "two", "", "1.5", "²"])
def test_a_number_of_threads_that_is_none_is_refused(monkeypatch, stated):
    monkeypatch.setenv(THREADS_VARIABLE, stated)
    with pytest.raises(ValueError, match="TETHER_THREADS must be an integer of at least 1"):
        thread_limit()


def test_two_threads_are_the_default_where_there_are_two_processors(monkeypatch):
    monkeypatch.delenv(THREADS_VARIABLE, raising=False)
    for processors, expected in ((1, 1), (2, 2), (64, 2)):
        monkeypatch.setattr(blocks, "_processors", lambda count=processors: count)
        assert thread_limit() == expected
