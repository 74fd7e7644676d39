"""Running a service until it is told to end: requests that were accepted are answered first.

uvicorn listens, limits connections and ends. Logs have neither passwords nor the messages of
unexpected errors.
"""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from typing import Any

import uvicorn
from starlette.applications import Starlette

from tether._core.files import redact_text
from tether.service.application import make_application
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
    """Serve until SIGTERM or SIGINT, and log to stderr.

    Parameters
    ----------
    settings : ServiceSettings
        What is served, and where.

    Raises
    ------
    ValueError
        If a setting is invalid or another one than that of the store.
    StoreError
        If a store cannot be opened.
    SystemExit
        If the port cannot be used, which the log says.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("tether", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
    application = make_application(settings)  # errors in the settings are errors here
    if settings.access.keys is None:
        log.warning("there are no API keys: everyone on this machine may do everything")
    sys.setswitchinterval(0.001)  # requests wait less for other threads
    gc.collect()  # a full collection, of all that was imported, takes as long as 50 decisions
    gc.freeze()
    uvicorn.Server(make_config(settings, application)).run()


def make_config(settings: ServiceSettings, application: Starlette) -> uvicorn.Config:
    """How the web server runs: no logs of its own about requests, no trust in proxies; seconds."""
    return uvicorn.Config(
        application,
        host=settings.listen.host,
        port=settings.listen.port,
        ws="none",  # they would not pass the access control
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[*HEADERS],
        limit_concurrency=settings.limits.connections,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
    )


class OneLine(logging.Formatter):
    """A line for each event, without passwords; asyncio quotes errors in its further lines.

    Below an unexpected error stands where it arose. Its message may quote keys or bodies.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The first line of the message."""
        record.msg, record.args = record.getMessage().partition("\n")[0], None
        return redact_text(super().format(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Where an error and its causes arose, and their types."""
        error, places = ei[1], list[str]()
        while error is not None:
            places += [*traceback.format_tb(error.__traceback__), type(error).__name__]
            error = error.__cause__ or error.__context__
        return "\n".join(places)
