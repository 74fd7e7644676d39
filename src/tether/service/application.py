"""The web application of a service: what it serves, opened; its routes; its start and end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tether.runs.errors import StoreError
from tether.service.access import Access
from tether.service.actions import RunApi, ServedRun, open_run
from tether.service.api import Endpoint
from tether.service.decisions import DecisionsApi, Ofrep
from tether.service.gateway import GatewayApi
from tether.service.keys import KeyFile
from tether.service.metrics import ServiceMetrics
from tether.service.operate import Health, OperateApi
from tether.service.page import HEADERS, Page, index_page
from tether.service.served import PatientRelease, Present, Served, ServedRelease
from tether.service.settings import (
    Flag,
    NamedRelease,
    ServiceSettings,
    TetheredGateway,
)
from tether.service.tethered import TetheredApi, open_tethered
from tether.service.webhooks import Webhooks

log = logging.getLogger("tether.service")


def make_application(settings: ServiceSettings) -> Starlette:
    """Open what is served and make the web application that serves it.

    It is opened at once, so that errors in its settings are errors of this call, and closed when
    the application shuts down. A web server that waits for open answers before it shuts an
    application down calls `application.state.end_streams()` first, as `run_service` does.

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

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    application = _Application(routes=service.routes, lifespan=lifespan)
    application.state.service = service
    application.state.end_streams = service.end_streams
    application.router.redirect_slashes = False  # to a host that the client has named
    return application


class _Application(Starlette):
    """A web application with nothing around its routes but the access control."""

    def build_middleware_stack(self) -> ASGIApp:
        """What every request passes."""
        access: Access = self.state.service.access
        return access.around(self.router)


class Service:
    """Everything that a service consists of; it closes what it has opened."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        self.keys = read_keys(settings)
        self.access = Access(settings, self.keys, self.metrics)
        self.served: list[Served] = []
        self.pages: list[Page] = []
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self._flags: dict[str, tuple[Flag, ServedRelease]] = {}
        self._health = Health(self.served, self.metrics)
        try:
            endpoints = self._open()
        except BaseException:
            for each in self.served:
                each.run.close()
            raise
        self.webhooks = Webhooks(settings.webhooks, self.metrics)
        endpoints += self._health.endpoints()
        self._health.describe(", ".join(each.title for each in self.served), endpoints)
        self.routes = [
            Route(
                each.path, self.access.handler(each), methods=[each.method], include_in_schema=False
            )
            for each in endpoints
        ]

    async def start(self) -> None:
        """Look at every store once, and begin to follow it."""
        for each in self.served:
            await each.start(self._noticed)
        self._health.is_ready = True

    async def close(self) -> None:
        """Let everything end that is under way, and close the stores."""
        self._health.is_ready = False
        for close in self._closing:
            await close()
        for each in self.served:
            await each.close()
        await self.webhooks.close()

    def end_streams(self) -> None:
        """End the answers that have no end."""
        for page in self.pages:
            page.end()

    def _noticed(self, served: Served, present: Present | None) -> None:
        self.metrics.present(served.title, served.present, served.is_serving)
        self.webhooks.noticed(served, present)

    def _open(self) -> list[Endpoint]:
        settings, endpoints = self.settings, list[Endpoint]()
        if settings.run is not None:
            run = open_run(settings.run, settings.folder, settings.limits.store_deadline)
            endpoints += self._run_endpoints(run)
        elif isinstance(settings.gateway, TetheredGateway):
            run = open_tethered(settings.gateway, settings.folder, settings.limits.store_deadline)
            endpoints += self._run_endpoints(run, settings.gateway)
        for name, table in settings.named_releases():
            served = self._open_release(name, table)
            endpoints += self._release_endpoints(served, table)
        if self._flags:
            endpoints += Ofrep(self._flags, self.metrics).endpoints()
        if settings.releases:
            endpoints.append(Endpoint("GET", "/", None, self._index, "Links to the pages."))
        return endpoints

    def _open_release(self, name: str, table: NamedRelease) -> ServedRelease:
        limits, options = self.settings.limits, table.options(self.settings.folder)
        store = table.store_at(self.settings.folder)
        where = f"releases.{name}" if name else "release"
        if store is None:
            raise ValueError(f"{where} must name a store or a store_variable")
        if table.gateway is not None:
            options |= {"reported": table.gateway.reported, "patience": table.gateway.patience}
        try:
            release = PatientRelease(store, **options, deadline=limits.store_deadline)
        except StoreError as error:
            if "guardrails" in options:
                raise
            raise StoreError(f"{error}: name {where}.guardrails to create a release") from error
        except (ValueError, TypeError) as error:
            raise ValueError(f"[{where}]: {error}") from error
        flag = table.flag.key
        made = ServedRelease(name, flag, release, limits.store_deadline, limits.answer_within)
        self.served.append(made)
        self._flags[flag] = table.flag, made
        return made

    def _release_endpoints(self, served: ServedRelease, table: NamedRelease) -> list[Endpoint]:
        most = self.settings.limits.items_per_request
        page = Page(served, self.keys)
        self.pages.append(page)
        found = [
            *DecisionsApi(served, self.metrics, most).endpoints(),
            *OperateApi(served, self.metrics).endpoints(),
            *page.endpoints(),
        ]
        if table.gateway is not None:
            gateway = GatewayApi(served, table.gateway, self.metrics)
            self._closing.append(gateway.close)
            found += gateway.endpoints()
        return [each.under(served.prefix) for each in found]

    def _run_endpoints(
        self, served: ServedRun, gateway: TetheredGateway | None = None
    ) -> list[Endpoint]:
        self.served.append(served)
        api = RunApi(served, self.metrics, self.settings, acts=gateway is None)
        page = Page(served, self.keys, served.offers)
        self.pages.append(page)
        self._closing.append(api.close)
        found = [
            *api.endpoints(),
            *OperateApi(served, self.metrics, served.told).endpoints(),
            *page.endpoints(),
        ]
        if gateway is not None:
            tethered = TetheredApi(served, gateway, self.metrics)
            self._closing.append(tethered.close)
            found += tethered.endpoints()
        return found

    async def _index(self, request: Request, body: None) -> Response:
        return HTMLResponse(index_page(self.served), headers=HEADERS)


def read_keys(settings: ServiceSettings) -> KeyFile | None:
    """The file of API keys that the settings name."""
    if settings.access.keys is None:
        return None
    path = Path(settings.folder, settings.access.keys)
    try:
        return KeyFile(path)
    except OSError as error:
        raise ValueError(
            f"access.keys must be a file that `tether serve-key` made, got {str(path)!r}: "
            f"{error.strerror}"
        ) from None
