"""The web application of a service: its routes, behind the access control, from start to end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from tether.service.access.access_control import AccessControl
from tether.service.api_errors import CODES_BY_STATUS, ApiError, error_response
from tether.service.dashboard.dashboard import Dashboard
from tether.service.decisions.json_api import JsonApi
from tether.service.decisions.ofrep import Ofrep
from tether.service.endpoint import Endpoint, Endpoints
from tether.service.gateway.release_gateway import ReleaseGateway
from tether.service.gateway.tethered import TetheredGateway
from tether.service.operating.gate import Gate
from tether.service.operating.health import Health
from tether.service.operating.operator_api import OperatorApi
from tether.service.runs.actions_api import ActionsApi
from tether.service.runs.outcomes import OutcomesApi
from tether.service.runs.run_status import RunStatus
from tether.service.service import Service
from tether.service.settings.service_settings import ServiceSettings


def make_application(settings: ServiceSettings) -> Starlette:
    """Open a release or a run and make the web application that serves it.

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
        If the store cannot be opened.
    """
    service = Service(settings)
    gateway = _gateway(service)
    dashboard = Dashboard(service)
    endpoints = Endpoints(_endpoints(service, dashboard, gateway))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.start()
        if gateway is not None:
            gateway.start()
        try:
            yield
        finally:
            await dashboard.live.close()
            if gateway is not None:
                await gateway.close()
            await service.close()

    application = _Application(
        routes=endpoints.routes(),
        exception_handlers={ApiError: _answer_error, HTTPException: _answer_http_error},
        lifespan=lifespan,
    )
    application.state.endpoints, application.state.service = endpoints, service
    application.state.end_streams = dashboard.live.end
    application.router.redirect_slashes = False  # to a host that the client has named
    return application


class _Application(Starlette):
    """A web application behind its access control, which answers unexpected errors itself."""

    def build_middleware_stack(self) -> ASGIApp:
        """What every request passes."""
        handlers = dict(self.exception_handlers)
        service = self.state.service
        return AccessControl(
            ExceptionMiddleware(self.router, handlers=handlers),
            settings=service.settings,
            metrics=service.metrics,
            endpoints=self.state.endpoints,
        )


def _gateway(service: Service) -> ReleaseGateway | None:
    """The gateway, if the settings have one; if they are wrong the release is closed again."""
    if service.settings.gateway is None:
        return None
    try:
        return ReleaseGateway(service, service.settings.gateway)
    except ValueError:
        service.release.close()
        raise


def _endpoints(
    service: Service, dashboard: Dashboard, gateway: ReleaseGateway | None
) -> list[Endpoint]:
    """Everything that a service answers."""
    health = Health(service)
    endpoints = [
        *_served_endpoints(service),
        *OperatorApi(service).endpoints(),
        *dashboard.endpoints(),
        *(() if gateway is None else gateway.endpoints()),
        *health.endpoints(),
    ]
    health.describe(endpoints)
    return endpoints


def _served_endpoints(service: Service) -> list[Endpoint]:
    """What only a release, or only a run, has."""
    settings = service.settings
    if settings.run is not None or settings.tethered is not None:
        beside = [*OutcomesApi(service).endpoints(), *RunStatus(service).endpoints()]
        if settings.tethered is not None:
            return [*TetheredGateway(service, settings.tethered).endpoints(), *beside]
        return [*ActionsApi(service).endpoints(), *beside]
    return [
        *Ofrep(service).endpoints(),
        *JsonApi(service).endpoints(),
        *Gate(service).endpoints(),
    ]


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error.status, error.message)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    """Errors of the router: there is no such path, or not this method."""
    assert isinstance(error, HTTPException)
    status = error.status_code if error.status_code in CODES_BY_STATUS else 400
    response = error_response(status, error.detail)
    response.headers.update(error.headers or {})  # which methods are allowed
    return response
