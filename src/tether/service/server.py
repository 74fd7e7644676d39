"""Running a service until it is told to end: requests that were accepted are answered first.

uvicorn accepts connections, limits them and, with several workers, starts a worker again that has
ended. Logs are JSON lines, without passwords and messages of unexpected errors.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import socket
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.supervisors import Multiprocess

from tether._core.files import redact_text
from tether.service.application import make_application
from tether.service.metrics import METRICS_FOLDER
from tether.service.settings import ServiceSettings

BACKLOG = 256
"""How many connections may wait to be accepted."""
HEADERS = (
    ("content-security-policy", "frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
"""What every answer says: it is not to be embedded or kept. The page says what it may load."""

log = logging.getLogger("tether.service")


def run_service(settings: ServiceSettings) -> None:
    """Serve until SIGTERM or SIGINT, and log JSON lines on stderr.

    Parameters
    ----------
    settings : ServiceSettings
        What is served, and where.

    Raises
    ------
    ValueError
        If a setting is invalid or another one than that of the store, or the port cannot be used.
    StoreError
        If a store cannot be opened.
    """
    with listen_at(settings.listen.host, settings.listen.port) as listening:
        log_as_json()
        application = make_application(settings)  # errors in the settings are errors here
        announce(settings, listening)
        if settings.listen.workers == 1:
            avoid_pauses()
            uvicorn.Server(make_config(settings, application)).run([listening])
            return
        for each in application.state.service.served:
            each.run.close()
        with tempfile.TemporaryDirectory(prefix="tether-metrics-") as folder:
            os.environ[METRICS_FOLDER] = folder
            config = make_config(settings, partial(worker_application, settings))
            Supervisor(config, [listening]).run()


def make_config(settings: ServiceSettings, application: Any) -> uvicorn.Config:
    """How the web server runs: no logs of its own about requests, no trust in proxies; seconds."""
    return uvicorn.Config(
        application,
        factory=isinstance(application, partial),
        host=settings.listen.host,
        port=settings.listen.port,
        ws="none",  # they would not pass the access control
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[*HEADERS],
        workers=settings.listen.workers,
        limit_concurrency=settings.limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        timeout_worker_healthcheck=120,
    )


class Supervisor(Multiprocess):
    """Starts workers that have ended again, also one that ends while its answer is waited for."""

    def keep_subprocess_alive(self) -> None:
        """See which workers have ended: their ends of the pipes must not be open here too."""
        for process in self.processes:
            process.child_conn.close()
        super().keep_subprocess_alive()


def worker_application(settings: ServiceSettings) -> Starlette:
    """The application of one of several workers; what those left that have ended is removed."""
    log_as_json()
    avoid_pauses()
    for path in Path(os.environ[METRICS_FOLDER]).glob("gauge_live*.db"):
        if not Path("/proc", path.stem.rpartition("_")[2]).exists():
            path.unlink(missing_ok=True)
    return make_application(settings)


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens, before anything else begins: a service needs its port first.

    Connections have TCP_NODELAY from it. Without it, the second part of an answer on a kept
    connection waits until the client acknowledges the first, for about 40 ms.
    """
    try:
        found = {each[0] for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        family = socket.AF_INET if socket.AF_INET in found else socket.AF_INET6
        made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        told = "listen must name an address of this machine and a free port that may be used"
        raise ValueError(f"{told}, got {host!r} and {port}: {error.strerror}") from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return made


def avoid_pauses() -> None:
    """Let requests wait less for other threads, and for the collection of garbage.

    A full collection looks at everything that was imported, which takes as long as 50 decisions.
    """
    sys.setswitchinterval(0.001)
    gc.collect()
    gc.freeze()


def announce(settings: ServiceSettings, listening: socket.socket) -> None:
    """Log the address that is served; a port of 0 has become a real one."""
    host, port = listening.getsockname()[:2]
    log.info("serving http://%s:%d", f"[{host}]" if ":" in host else host, port)
    if settings.access.keys is None:
        log.warning("there are no API keys: everyone on this machine may do everything")


class JsonLines(logging.Formatter):
    """One JSON object for each record, without passwords."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, without the messages of unexpected errors: they may quote keys or bodies."""
        moment, places = datetime.fromtimestamp(record.created, UTC), list[str]()
        error = record.exc_info[1] if record.exc_info else None
        while error is not None:
            places += [*traceback.format_tb(error.__traceback__), type(error).__name__]
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        entry = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "traceback": "\n".join(places[:100]),
        }
        if record.name == "asyncio":  # then lines that quote the error follow
            entry["event"] = entry["event"].partition("\n")[0]
        return json.dumps({name: redact_text(text) for name, text in entry.items() if text})


def log_as_json() -> None:
    """Let the service and its web server log JSON lines on stderr, and others their warnings."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("tether", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
