"""The web application of a service: what it serves, opened; its routes; its start and end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route

from tether.runs.errors import StoreError
from tether.service.access import Access, Handler
from tether.service.actions import RunApi, open_run
from tether.service.api import Endpoint, endpoints_of, openapi
from tether.service.decisions import DecisionsApi, OfrepApi
from tether.service.gateway import GatewayApi
from tether.service.keys import KeyFile
from tether.service.metrics import ServiceMetrics
from tether.service.operate import GateApi, HealthApi, OperateApi
from tether.service.page import IndexApi, PageApi
from tether.service.served import PatientRelease, Served, ServedRelease
from tether.service.settings import ReleaseTable, ServiceSettings, TetheredGateway
from tether.service.tethered import TetheredApi, open_tethered
from tether.service.webhooks import Webhooks


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

    application = Starlette(routes=service.routes, lifespan=lifespan)
    application.router.redirect_slashes = False  # to a host that the client has named
    application.middleware_stack = service.access.around(application.router)  # and nothing else
    application.state.service = service
    application.state.end_streams = service.end_streams
    return application


class Service:
    """Everything that a service consists of; it closes what it has opened."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.metrics = settings, ServiceMetrics()
        path = settings.access.keys
        self.keys = None if path is None else KeyFile(Path(settings.folder, path))
        self.access = Access(settings, self.keys, self.metrics)
        self.served: list[Served] = []
        self.pages: list[PageApi] = []
        self._endpoints: list[Endpoint] = []
        self._closing: list[Callable[[], Awaitable[None]]] = []
        self._health = HealthApi(self.served, self.metrics)
        try:
            self._open()
        except BaseException:
            for each in self.served:
                each.run.close()
            raise
        self.webhooks = Webhooks(settings.webhooks, self.metrics)
        self._endpoints += endpoints_of(self._health)
        title = ", ".join(each.title for each in self.served)
        self._health.schema = openapi(title, self._endpoints)
        self.routes = [
            Route(each.path, Handler(self.access, each), methods=[each.method])
            for each in self._endpoints
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

    def _noticed(self, served: Served) -> None:
        self.metrics.present(served.title, served.present, served.is_serving)
        self.webhooks.noticed(served)

    def _open(self) -> None:
        settings, metrics, limits = self.settings, self.metrics, self.settings.limits
        if settings.run is not None:
            run = open_run(settings.run, settings.folder, limits.store_deadline)
            self.served.append(run)
            self._add(run, RunApi(run, metrics, settings))
        elif isinstance(gateway := settings.gateway, TetheredGateway):
            run = open_tethered(gateway, settings.folder, limits.store_deadline)
            self.served.append(run)
            self._add(run, RunApi(run, metrics, settings), TetheredApi(run, gateway, metrics))
        flags = {}
        for name, table in settings.named_releases():
            served = self._open_release(name, table)
            self.served.append(served)
            flags[table.flag.key] = table.flag, served
            apis: list[Any] = [DecisionsApi(served, metrics, limits.items_per_request)]
            apis += [] if table.gateway is None else [GatewayApi(served, table.gateway, metrics)]
            self._add(served, *apis, GateApi(served))
        if flags:
            self._endpoints += endpoints_of(OfrepApi(flags, metrics))
        if settings.releases:
            self._endpoints += endpoints_of(IndexApi(self.served))

    def _open_release(self, name: str, table: ReleaseTable) -> ServedRelease:
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
        title = table.flag.key
        return ServedRelease(name, title, release, limits.store_deadline, limits.answer_within)

    def _add(self, served: Served, *apis: Any) -> None:
        """What is answered about a run or release: by its kind, and by all of them."""
        page = PageApi(served, self.keys)
        self.pages.append(page)
        for api in (*apis, OperateApi(served, self.metrics), page):
            found = endpoints_of(api, served.prefix)
            hidden = {served.prefix + path for path in served.hidden}
            self._endpoints += [each for each in found if each.path not in hidden]
            if hasattr(api, "close"):
                self._closing.append(api.close)
