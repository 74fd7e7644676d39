"""Answers without the store wait a moment for the disk, and no longer."""

import asyncio
import threading

from tether.rounds.errors import StoreError
from tether.service.decisions import spooled_answers
from tether.service.decisions.spooled_answers import SpooledAnswers


class Disk:
    """Keeps keys when it is told to."""

    def __init__(self):
        self.kept, self.may_write, self.error = [], threading.Event(), None
        self.may_write.set()

    def append(self, keys):
        self.may_write.wait(30)
        if self.error is not None:
            raise self.error
        self.kept += keys


def run(test, disk, within=30.0):
    async def main():
        answers = SpooledAnswers(disk.append, within=within)
        try:
            await test(answers)
        finally:
            disk.may_write.set()
            await answers.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def request(*keys):
    return [key.encode() for key in keys], asyncio.get_running_loop().create_future()


def test_answers_are_kept_before_they_are_given():
    disk = Disk()

    async def test(answers):
        one, two = request("a"), request("b", "c")
        answers.give([one, two])
        assert await one[1] == [None]
        assert await two[1] == [None, None]
        assert disk.kept == [b"a", b"b", b"c"]

    run(test, disk)


def test_a_disk_that_hangs_or_fails_delays_nothing(caplog):
    disk = Disk()

    async def test(answers):
        disk.may_write.clear()
        first = request("a")
        answers.give([first])
        assert await first[1] == [None]
        disk.error = StoreError("full")
        disk.may_write.set()
        second = request("b")
        answers.give([second])
        assert await second[1] == [None]

    run(test, disk, within=0.01)
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == [
        "answers without the store are not kept either: full"
    ]


def test_only_so_many_wait_for_the_disk(monkeypatch, caplog):
    monkeypatch.setattr(spooled_answers, "MAX_REQUESTS_UNKEPT", 2)
    disk = Disk()

    async def test(answers):
        disk.may_write.clear()
        first = request("0")
        answers.give([first])
        await asyncio.sleep(0.01)  # it is being written
        others = [request(f"{number}") for number in range(1, 6)]
        for each in others:
            answers.give([each])
        assert [each[1].done() for each in others] == [False, False, False, True, True]
        disk.may_write.set()
        await asyncio.gather(*(each[1] for each in (first, *others)))

    run(test, disk)
    assert disk.kept == [b"0", b"1", b"2", b"3"]
    assert "the disk is too slow" in caplog.text


def test_the_end_does_not_wait_for_a_disk_that_hangs(monkeypatch):
    monkeypatch.setattr(spooled_answers, "CLOSING_SECONDS", 0.01)
    disk = Disk()

    async def test(answers):
        disk.may_write.clear()
        waiting = request("a")
        answers.give([waiting])
        await asyncio.sleep(0.01)
        await answers.close()
        assert answers._is_writing

    run(test, disk, within=0.001)
