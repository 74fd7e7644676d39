"""Running a service until it is told to end: requests that were accepted are answered first."""

from __future__ import annotations

import logging
import socket

import uvicorn

from tether._core.redact import redact_url
from tether.service.application import make_application
from tether.service.operating.json_logs import log_as_json
from tether.service.service import open_release
from tether.service.settings.service_settings import ServiceSettings
from tether.service.workers import run_workers

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
    if settings.workers == 1:
        server = uvicorn.Server(make_config(settings))
    else:  # errors in the settings are errors here
        open_release(settings).close()
    log_as_json()
    fields: dict[str, object] = {
        "address": f"http://{settings.host}:{settings.port}",
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
    if settings.workers == 1:
        server.run()
        return
    with socket.create_server(
        (settings.host, settings.port), family=_family(settings.host), backlog=2048
    ) as listening:
        run_workers(settings, _serve, listening)


def _serve(settings: ServiceSettings, sockets: list[socket.socket]) -> None:
    uvicorn.Server(make_config(settings)).run(sockets)


def _family(host: str) -> socket.AddressFamily:
    return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]


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
