"""A job whose process is killed again and again: around statements, and at random moments."""

from __future__ import annotations

import time

import numpy as np

from tests.rounds.child_processes import KILLED


def kill_again_and_again(child_processes, job, given, trips, check, wait=lambda: None):
    """Once at each trip and once at a random moment after it; then the job runs to its end.

    A trip is the number of a moment at which the process kills itself. `given` says what the job
    gets in each of its lives, `check` looks at what the killed process left, and `wait` returns
    when the database has ended what that process had begun.
    """
    rng = np.random.default_rng(5)
    killed, longest = 0, 0.0
    for life, trip in enumerate(trips):
        started = time.perf_counter()
        endings = [child_processes.run(job, trip=trip, **given(life))]
        wait()
        check()
        if life:  # the first waits for the children
            longest = max(longest, min(time.perf_counter() - started, 0.2))
        delay = rng.uniform(0, longest)
        endings.append(child_processes.run(job, trip=0, kill_after=delay, **given(life)))
        wait()
        check()
        assert set(endings) <= {KILLED, 0}
        killed += endings.count(KILLED)
    assert killed > len(trips), "hardly any process was killed"
    assert child_processes.run(job, trip=0, **given(len(trips))) == 0
    check()
