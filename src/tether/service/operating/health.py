"""What those who operate a service ask for: is it alive, is it ready, how is it doing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.rounds.releases.served_release import ServedRelease
from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import TEXT_SCHEMA
from tether.service.openapi import openapi
from tether.service.service import Service


class Health:
    """The endpoints for those who run a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._schema: dict[str, Any] = {}

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        return [
            Endpoint("GET", "/healthz", None, self.healthz, "Whether the process answers."),
            Endpoint("GET", "/readyz", None, self.readyz, "Whether requests may be sent."),
            Endpoint(
                "GET",
                "/metrics",
                "read",
                self.metrics,
                "Metrics for Prometheus.",
                result=TEXT_SCHEMA,
                media="text/plain",
            ),
            Endpoint("GET", "/openapi.json", None, self.schema, "This schema."),
        ]

    def describe(self, endpoints: Sequence[Endpoint]) -> None:
        """Take the endpoints that the schema describes: those of the whole service."""
        self._schema = openapi(self._service.settings.title, endpoints)

    async def healthz(self, request: Request) -> Response:
        """Say that the process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Say whether requests may be sent here; also without the store, as "old" is an answer."""
        if not self._service.is_ready:
            raise ApiError(503, "the service is starting or shutting down")
        return JSONResponse({"ready": True, "store": self._service.is_store_available})

    async def metrics(self, request: Request) -> Response:
        """Show the metrics of this process."""
        self._service.note_availability()
        await self._note_release()
        return Response(self._service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def _note_release(self) -> None:
        """Read the mean losses and the warnings of a release, while its store answers."""
        service, served = self._service, self._service.served
        if isinstance(served, ServedRelease) and service.is_store_available:
            with suppress(ApiError):  # the store has just gone: what was known stands
                losses, warnings = await service.call(
                    lambda: (served.present_losses(), served.warnings())
                )
                service.metrics.losses.present(losses)
                service.metrics.warnings(warnings)

    async def schema(self, request: Request) -> Response:
        """Show the OpenAPI schema."""
        return JSONResponse(self._schema)
