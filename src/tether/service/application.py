"""A service: what it serves, opened; its routes; its start and end; its web server and its log.

uvicorn listens, limits connections and ends: requests that were accepted are answered first. Logs
have neither passwords nor the messages of unexpected errors.
"""

from __future__ import annotations

import gc
import logging
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tether._core.files import redact_text
from tether.runs.errors import StoreError
from tether.service.access import Access
from tether.service.actions import open_run
from tether.service.api import ApiError, Endpoint, endpoint, endpoints_of, openapi
from tether.service.gateway import GatewayRelease
from tether.service.releases import OfrepApi, PatientRelease, ServedRelease
from tether.service.served import Served
from tether.service.settings import ReleaseTable, ServiceSettings, read_service_settings
from tether.service.status import ServiceMetrics
from tether.service.tethered import open_tethered
from tether.service.webhooks import Webhooks

HEADERS = (
    ("content-security-policy", "frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
"""What every answer says: it is not to be embedded or kept. The page says what it may load."""

log = logging.getLogger("tether.service")


def make_application(settings: ServiceSettings) -> Starlette:
    """Open what is served and make the web application that serves it.

    It is opened at once, so that errors in its settings are errors of this call, and closed when
    the application shuts down.

    Parameters
    ----------
    settings : ServiceSettings
        What is served.

    Returns
    -------
    starlette.applications.Starlette
        An ASGI application, for one process and event loop.

    Raises
    ------
    ValueError
        If a setting is invalid or another one than that of the store.
    StoreError
        If a store cannot be opened.
    """
    service = Service(settings)

    async def refuse(request: Request, error: Exception) -> Response:
        """What is said of a path or method that there is not."""
        assert isinstance(error, HTTPException)
        service.metrics.of("http_requests", "other", str(error.status_code)).inc()
        return ApiError(error.status_code, f"{error.detail}: see /openapi.json").response

    application = Starlette(
        routes=service.routes,
        lifespan=service.running,
        exception_handlers={HTTPException: refuse},
    )
    application.router.redirect_slashes = False  # to a host that the client has named
    application.state.service = service
    return application


class Service:
    """Everything that a service consists of; it closes what it has opened."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings, self.metrics, self.access = settings, ServiceMetrics(), Access(settings)
        self.most_bytes = settings.limits.body_bytes
        self.served: list[Served] = []
        try:
            endpoints = self._open()
        except BaseException:
            for each in self.served:
                each.run.close()
            raise
        self._webhooks = Webhooks(settings.webhooks, self.metrics)
        self._schema = openapi(", ".join(each.title for each in self.served), endpoints)
        self.routes = [Route(each.path, each, methods=[each.method]) for each in endpoints]

    @asynccontextmanager
    async def running(self, application: Starlette) -> AsyncIterator[None]:
        """Follow every store, let everything end that is under way, and close the stores."""
        try:
            for each in self.served:
                await each.start(self.metrics, self._webhooks.noticed)
            yield
        finally:
            for each in self.served:
                await each.close()
            await self._webhooks.close()

    def _open(self) -> list[Endpoint]:
        """Open what is served, and say what is answered about it."""
        settings, found = self._settings, list[Endpoint]()
        if settings.run is not None:
            self.served.append(open_run(settings))
        if settings.gateway is not None:
            self.served.append(open_tethered(settings, settings.limits.store_deadline))
        names = dict[str, str]()
        for name, table in settings.named_releases.items():
            served = self._open_release(name, table)
            self.served.append(served)
            if (other := names.setdefault(served.run.settings.salt, name)) != name:
                raise ValueError(f"releases {other!r} and {name!r} must have stores of their own")
        if flags := [each for each in self.served if isinstance(each, ServedRelease)]:
            found += endpoints_of(OfrepApi(flags))
        for each in self.served:
            found += endpoints_of(each, each.prefix)
        return found + endpoints_of(self)

    def _open_release(self, name: str, table: ReleaseTable) -> ServedRelease:
        where = f"releases.{name}" if name else "release"
        settings, limits = self._settings, self._settings.limits
        try:
            options = table.options(settings.folder)
            store = settings.store_at(table.store)
            release = PatientRelease(store, **options, deadline=limits.store_deadline)
        except StoreError as error:
            if table.guardrails is not None:
                raise
            raise StoreError(f"{error}: name {where}.guardrails to create a release") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"[{where}]: {error}") from error
        given = name, table, release, limits
        if table.gateway is None:
            return ServedRelease(*given)
        return GatewayRelease(*given, gateway=table.gateway)

    # ---- endpoints ------------------------------------------------------------------------------

    @endpoint("GET", "/healthz", None)
    async def healthz(self, request: Request) -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @endpoint("GET", "/readyz", None)
    async def readyz(self, request: Request) -> dict[str, bool]:
        """Whether requests may be sent; also without the store, since "old" is an answer."""
        return {"ready": True, "store": all(each.is_serving for each in self.served)}

    @endpoint("GET", "/metrics", "read", media="text/plain")
    async def show_metrics(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        for each in self.served:
            self.metrics.status(each.title, each.status)
        text = generate_latest(self.metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    @endpoint("GET", "/openapi.json", None)
    async def show_schema(self, request: Request) -> dict[str, Any]:
        """The OpenAPI schema of everything that is answered here."""
        return self._schema


def run_service(file: Path) -> None:
    """Serve until SIGTERM or SIGINT, and log to stderr; a port that is taken is a SystemExit."""
    settings = read_service_settings(file)
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
