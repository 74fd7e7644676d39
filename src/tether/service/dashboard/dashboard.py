"""The dashboard: a page without data, and the document that its script asks for."""

from __future__ import annotations

from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tether._version import __version__
from tether.rounds.served_run import ServedRun
from tether.service.api_errors import ApiError
from tether.service.dashboard.decision_rate import DecisionRate
from tether.service.dashboard.document import Watched
from tether.service.dashboard.event_stream import EventStream
from tether.service.dashboard.live_document import LiveDocument
from tether.service.dashboard.release_document import WatchedRelease
from tether.service.dashboard.run_document import WatchedRun
from tether.service.endpoint import Answer, Endpoint
from tether.service.json_schemas import TEXT_SCHEMA, object_schema
from tether.service.service import Service

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own script and style, and answers of this service."""
PAGE_FILES = {
    "/": ("dashboard.html", "text/html"),
    "/dashboard.js": ("dashboard.js", "text/javascript"),
    "/dashboard_view.js": ("dashboard_view.js", "text/javascript"),
    "/dashboard_charts.js": ("dashboard_charts.js", "text/javascript"),
    "/dashboard.css": ("dashboard.css", "text/css"),
}
"""The files of the page: their paths, names and media types."""


class Dashboard:
    """The endpoints of the page."""

    def __init__(self, service: Service) -> None:
        self._service = service
        watched: Watched
        if isinstance(service.served, ServedRun):
            watched = WatchedRun(service.served, service.settings.title)
        else:
            watched = WatchedRelease(service.release, service.settings.title)
        self._rate = DecisionRate(lambda: service.metrics.decision_count)
        self.live = LiveDocument(watched, self._facts)

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        anything = object_schema({}, closed=False)
        document = object_schema({"as_of": TEXT_SCHEMA, "parts": anything})
        files = [
            Endpoint(
                "GET", path, None, _file(name, media), f"The dashboard: {name}.",
                result=TEXT_SCHEMA, media=media,
            )
            for path, (name, media) in PAGE_FILES.items()
        ]  # fmt: skip
        return [
            *files,
            Endpoint(
                "GET", "/v1/dashboard", "read", self.document, "What the dashboard shows.",
                result=document, statuses=[503],
            ),
            Endpoint(
                "GET", "/v1/events", "read", self.events,
                "The same as server-sent events: all of it, then the parts that change.",
                result=TEXT_SCHEMA, media="text/event-stream", statuses=[503],
            ),
        ]  # fmt: skip

    async def document(self, request: Request) -> Response:
        """Say everything that the dashboard shows."""
        with self.live.viewing():
            snapshot = await self.live.after(0)
        if snapshot is None:
            raise ApiError(503, "the service is shutting down")
        text = snapshot.to_json(you=_you(request))
        return Response(text, media_type="application/json")

    async def events(self, request: Request) -> Response:
        """Say it again when something has changed."""
        keys, key = self._service.settings.keys, request.scope.get("tether.key")

        def may_go_on() -> bool:
            return keys is None or key in keys.keys  # it may be revoked, or lose its roles

        return EventStream(self.live, may_go_on, you=_you(request))

    def _facts(self) -> dict[str, Any]:
        """What the process says about itself."""
        outage = self._service.outage
        return {
            "outage": None if outage is None else outage.page,
            "decisions_per_second": _rounded(self._rate.per_second()),
            "version": __version__,
        }


def _you(request: Request) -> dict[str, Any]:
    """Who asks, and what they may do."""
    return {"name": request.scope["tether.name"], "roles": sorted(request.scope["tether.roles"])}


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else float(f"{rate:.2g}")


def _file(name: str, media: str) -> Answer:
    """The answer with a file of the page."""
    content = resources.files("tether.service.dashboard").joinpath(name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media, headers={"Content-Security-Policy": PAGE_POLICY})

    return answer
