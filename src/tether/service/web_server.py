"""Running a service until it is told to end: requests that were accepted are answered first."""

from __future__ import annotations

import logging
import socket

import uvicorn

from tether._core.redact import redact_url
from tether.service.application import make_application
from tether.service.operating.json_logs import log_as_json
from tether.service.settings.service_settings import ServiceSettings

GRACE_SECONDS = 10
"""How long a service waits for requests under way when it is told to end."""

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
        If a setting of the release is invalid or another one than that of the store.
    StoreError
        If the store cannot be opened.
    """
    server = ServiceServer(make_config(settings))
    log_as_json()
    fields = {
        "address": f"http://{settings.host}:{settings.port}",
        "store": redact_url(settings.store),
        "flag": settings.flag,
    }
    log.info("serving", extra={"fields": fields})
    if settings.keys is None:
        log.warning(
            "there are no API keys: only this machine may connect, and everyone on it may do "
            "everything"
        )
    server.run()


class ServiceServer(uvicorn.Server):
    """A web server that ends answers without an end before it waits for the others."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end that were accepted."""
        self.config.app.state.end_streams()  # type: ignore[union-attr]
        await super().shutdown(sockets)


def make_config(settings: ServiceSettings) -> uvicorn.Config:
    """How the web server runs: no logs of its own about requests, and no trust in proxies."""
    return uvicorn.Config(
        make_application(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
