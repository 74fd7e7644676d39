"""Several processes that answer requests at one port; one that ends is started again.

Each has its own connections to the store and its own spool. What they must agree on is in the
store.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING

from prometheus_client.multiprocess import mark_process_dead

from tether.service.operating.json_logs import log_as_json
from tether.service.operating.service_metrics import METRICS_FOLDER
from tether.service.settings.service_settings import ServiceSettings

if TYPE_CHECKING:
    from types import FrameType

WORKER_POLL_SECONDS = 0.1
"""How often it is checked that every worker runs."""
RESTART_SECONDS = 1.0
"""A worker that has run for less is not started again before so many seconds have passed."""
ENDING_SECONDS = 15.0
"""How long workers may take to end; then they are killed."""

Serve = Callable[[ServiceSettings, list[socket.socket]], None]

log = logging.getLogger("tether.service")


def run_workers(settings: ServiceSettings, serve: Serve, listening: socket.socket) -> None:
    """Let so many workers serve until SIGTERM or SIGINT, which ends all of them in order.

    `serve` serves at sockets, in a process of its own.
    """
    with tempfile.TemporaryDirectory(prefix="tether-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            workers = Workers(settings, serve, listening, folder)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, workers.end)
            workers.run()
        finally:
            del os.environ[METRICS_FOLDER]


class Workers:
    """The processes, and whether they are to end."""

    def __init__(
        self, settings: ServiceSettings, serve: Serve, listening: socket.socket, folder: str
    ) -> None:
        self._given, self._folder = (settings, serve, listening), folder
        self._ended = threading.Event()
        self._started: dict[SpawnProcess, tuple[float, ServiceSettings]] = {}

    def end(self, number: int, frame: FrameType | None) -> None:
        """Note a signal."""
        self._ended.set()

    def run(self) -> None:
        """Start the workers, and again each that ends, until they are to end."""
        settings = self._given[0]
        for number in range(settings.workers):  # one of them sends webhooks
            self._start(settings if number == 0 else replace(settings, webhooks=()))
        while not self._ended.wait(WORKER_POLL_SECONDS):
            for process, (begun, own) in list(self._started.items()):
                if not process.is_alive() and time.monotonic() - begun >= RESTART_SECONDS:
                    fields = {"process": process.pid, "status": process.exitcode}
                    log.error("a worker has ended: starting another", extra={"fields": fields})
                    del self._started[process]
                    mark_process_dead(process.pid, self._folder)  # type: ignore[no-untyped-call]
                    self._start(own)
        for process in self._started:
            process.terminate()
        until = time.monotonic() + ENDING_SECONDS
        for process in self._started:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()

    def _start(self, settings: ServiceSettings) -> None:
        given = (settings, *self._given[1:])
        process = multiprocessing.get_context("spawn").Process(target=_work, args=given)
        process.start()
        self._started[process] = time.monotonic(), settings


def _work(settings: ServiceSettings, serve: Serve, listening: socket.socket) -> None:
    """Serve in a worker, until a signal or the end of the process that started it."""
    log_as_json()
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow, name="tether-parent", daemon=True).start()
    try:
        serve(settings, [listening])
    except Exception:
        log.exception("a worker could not serve")
        raise SystemExit(1) from None
