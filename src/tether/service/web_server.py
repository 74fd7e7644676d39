"""Running a service until it is told to end: requests that were accepted are answered first."""

from __future__ import annotations

import logging
import math
import socket

import uvicorn

from tether._core.redact import redact_url
from tether.service.application import make_application
from tether.service.connection_limits import ACCEPTED_AT_ONCE, limited_protocol
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
    log_as_json()
    AnnouncingServer(make_config(settings), settings).run()


class ServiceServer(uvicorn.Server):
    """A web server that ends answers without an end before it waits for the others."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let requests end that were accepted."""
        self.config.app.state.end_streams()  # type: ignore[union-attr]
        await super().shutdown(sockets)


class AnnouncingServer(ServiceServer):
    """Says where it serves once its port is bound."""

    def __init__(self, config: uvicorn.Config, settings: ServiceSettings) -> None:
        super().__init__(config)
        self._settings = settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and log the address; a port of 0 has become a real one."""
        await super().startup(sockets)
        if not self.started:
            return
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        fields = {
            "address": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
            "store": redact_url(self._settings.store),
            "flag": self._settings.flag,
        }
        log.info("serving", extra={"fields": fields})
        if self._settings.keys is None:
            log.warning(
                "there are no API keys: only this machine may connect, and everyone on it may do "
                "everything"
            )


def make_config(settings: ServiceSettings) -> uvicorn.Config:
    """How the web server runs: no logs of its own about requests, and no trust in proxies."""
    return uvicorn.Config(
        make_application(settings),
        host=settings.host,
        port=settings.port,
        http=limited_protocol(settings.limits),
        backlog=ACCEPTED_AT_ONCE,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=math.ceil(settings.limits.idle_seconds),
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
