"""A process that has imported everything, and forks a child for each job that it is sent.

So a life that ends by kill -9 costs milliseconds, and the tests' own process never forks.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Self

from tests.scale import SCALE

KILLED = -signal.SIGKILL
DEADLINE_SECONDS = 600 * SCALE
"""After this a child that should have ended is killed; generous, since machines are loaded."""


class ChildProcesses:
    """The tests' end of it: start children by the name of their job, kill them, wait for them."""

    def __init__(self, folder: Path) -> None:
        self._errors = folder / "errors"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.rounds.child_processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait(DEADLINE_SECONDS)
        self._process.stdout.close()

    def start(self, job: str, **given: Any) -> int:
        """Start a child, and let it go on; its process id."""
        return self._ask(job=job, given=given, errors=str(self._errors))["pid"]

    def wait(self, pid: int, kill_after: float | None = None) -> int:
        """How a child ended, after so many seconds if it is to be killed."""
        status = self._ask(pid=pid, kill_after=kill_after)["status"]
        self._raise_errors()
        return status

    def open(self, gate: Path, journal: Path, count: int) -> None:
        """Let all children go at the same moment, once so many have said that they are ready."""
        self.await_ready(journal, count)
        gate.touch()

    def await_ready(self, journal: Path, count: int = 1) -> None:
        """Wait until so many children have said that they are ready."""
        started = time.monotonic()
        while not journal.exists() or journal.read_text().count('"ready"') < count:
            self._raise_errors()
            assert time.monotonic() - started < DEADLINE_SECONDS
            time.sleep(0.005)

    def run(self, job: str, kill_after: float | None = None, **given: Any) -> int:
        """Both."""
        return self.wait(self.start(job, **given), kill_after)

    def _raise_errors(self) -> None:
        if self._errors.exists():
            said = self._errors.read_text()
            self._errors.unlink()
            raise AssertionError(said)

    def _ask(self, **order: Any) -> dict[str, Any]:
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def main() -> None:
    """The children's end of it."""
    from tests.rounds import concurrent_jobs, recomputed_run, worker_process
    from tests.rounds.ramps import ramp_jobs
    from tests.rounds.releases import release_jobs

    worker_process.warm_up()
    release_jobs.warm_up()
    gc.freeze()
    modules = (worker_process, concurrent_jobs, release_jobs, ramp_jobs, recomputed_run)
    jobs = {name: job for module in modules for name, job in vars(module).items()}
    for line in sys.stdin:
        order = json.loads(line)
        if "job" in order:
            pid = os.fork()
            if pid == 0:
                signal.alarm(DEADLINE_SECONDS)
                _live(jobs[order["job"]], order)
            answer = {"pid": pid}
        else:
            answer = {"status": _die(order["pid"], order["kill_after"])}
        print(json.dumps(answer), flush=True)


def _live(job: Any, order: dict[str, Any]) -> None:
    try:
        job(**order["given"])
    except BaseException:
        Path(order["errors"]).write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def _die(pid: int, kill_after: float | None) -> int:
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    main()
