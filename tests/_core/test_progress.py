"""Steps of long work, and the reporter that shows them."""

import threading

import pytest

from tether._core import progress


class Recorded:
    """A reporter that writes down what it is told."""

    def __init__(self):
        self.told, self.threads_inside = [], 0

    def begin(self, description, total):
        self.told.append(("begin", description, total))
        return description

    def advance(self, step, amount):
        self.threads_inside += 1
        assert self.threads_inside == 1
        self.told.append(("advance", step, amount))
        self.threads_inside -= 1

    def end(self, step):
        self.told.append(("end", step))


def test_a_reporter_is_told_of_steps_and_of_steps_within_them():
    reporter = Recorded()
    with progress.reported_to(reporter), progress.step("checks", total=2) as outer:
        with progress.step("requests") as inner:
            inner.advance(4)
        outer.advance()
    assert reporter.told == [
        ("begin", "checks", 2),
        ("begin", "requests", None),
        ("advance", "requests", 4),
        ("end", "requests"),
        ("advance", "checks", 1),
        ("end", "checks"),
    ]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_step_that_fails_or_is_interrupted_has_ended(error):
    reporter = Recorded()
    with (
        progress.reported_to(reporter),
        pytest.raises(error),
        progress.step("scoring", total=3) as step,
    ):
        raise error
    step.advance()  # as an abandoned thread may
    assert reporter.told == [("begin", "scoring", 3), ("end", "scoring")]


def test_threads_advance_a_step_that_they_are_given_one_at_a_time():
    reporter = Recorded()
    with progress.reported_to(reporter), progress.step("scoring") as step:

        def work():
            for _ in range(200):
                step.advance()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert reporter.told.count(("advance", "scoring", 1)) == 1600
