"""Running a service until it is told to end: requests that were accepted are answered first."""

from __future__ import annotations

import errno
import gc
import logging
import math
import socket
import sys
from typing import Any

import uvicorn

from tether._core.files import redact_url
from tether.service.application import make_application
from tether.service.connection_limits import ACCEPTED_AT_ONCE, limited_protocol
from tether.service.open_served import open_served
from tether.service.operating.json_logs import log_as_json
from tether.service.settings.service_settings import ServiceSettings
from tether.service.workers import run_workers

GRACE_SECONDS = 10
"""How long a service waits for requests under way when it is told to end."""

SWITCH_SECONDS = 0.001
"""How long the threads that use the store may keep requests from being answered."""

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
        If a setting of the release is invalid or another one than that of the store, or the port
        cannot be used.
    StoreError
        If the store cannot be opened.
    """
    with listen_at(settings.host, settings.port) as listening:
        log_as_json()
        if settings.workers == 1:
            server = AnnouncingServer(make_config(settings), settings)
            avoid_pauses()
            server.run([listening])
            return
        open_served(settings).close()  # errors in the settings are errors here
        announce(settings, listening)
        run_workers(settings, _serve, listening)


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens, before anything else begins: a service without a port is none.

    Connections have TCP_NODELAY from it. Without it, the second part of an answer on a kept
    connection waits until the client acknowledges the first, for about 40 ms.
    """
    try:
        made = socket.create_server((host, port), family=_family(host), backlog=ACCEPTED_AT_ONCE)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} of {host} is in use (listen.port)") from None
        if error.errno == errno.EACCES:
            raise ValueError(f"port {port} may not be used by this user (listen.port)") from None
        raise ValueError(
            f"listen.host must be an address of this machine, got {host!r}: {error.strerror}"
        ) from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return made


def _serve(settings: ServiceSettings, sockets: list[socket.socket]) -> None:
    server = ServiceServer(make_config(settings))
    avoid_pauses()
    server.run(sockets)


def _family(host: str) -> socket.AddressFamily:
    """The family of an address; of a name that has both, such as localhost, IPv4."""
    found = {each[0] for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return socket.AF_INET if socket.AF_INET in found else socket.AF_INET6


def avoid_pauses() -> None:
    """Let requests wait less for other threads, and for the collection of garbage.

    A full collection looks at everything that was imported, which takes as long as 50 decisions.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()


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
        """Start, and log the address."""
        await super().startup(sockets)
        if self.started:
            announce(self._settings, self.servers[0].sockets[0])


def announce(settings: ServiceSettings, listening: Any) -> None:
    """Log the address that is served; a port of 0 has become a real one."""
    host, port = listening.getsockname()[:2]
    fields: dict[str, Any] = {
        "address": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
        "store": redact_url(settings.store),
        "flag": settings.flag,
    }
    if settings.workers > 1:
        fields["workers"] = settings.workers
    log.info("serving", extra={"fields": fields})
    if settings.keys is None:
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
        ws="none",  # they would not pass the access control
        backlog=ACCEPTED_AT_ONCE,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=math.ceil(settings.limits.idle_seconds),
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
