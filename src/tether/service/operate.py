"""What those ask who operate a service: status, gate, acts, live page, health, metrics, the schema.

The gate is for other rollout tools. `GET` tells in the body whether they may go on, as the web
metric of Argo Rollouts reads it; `POST` by the status, as Flagger's webhooks do. It fails when an
alarm stands or a guardrail's own mean is shown to exceed what is tolerated; where the store does
not answer nobody knows, and the status is 503. The status says the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime
from html import escape
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tether.runs.event_log import Transaction
from tether.service.api import ApiError, endpoint, read_query
from tether.service.metrics import ServiceMetrics
from tether.service.served import Served, ServedRelease, Status
from tether.view import document, page_html

DOCUMENT_SECONDS, DOCUMENT_SHARE = 1.0, 0.05
"""The least time between two documents, and the part of the time that they may take: one takes as
long as the run has rows, so all viewers share the last one."""
UNITS_SHOWN = 200
"""How many steps or rounds the page shows."""

Reason = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"\S")]
log = logging.getLogger("tether.service")


class Why(Struct, forbid_unknown_fields=True):
    """The reason of an act, which is stored with the name of the API key."""

    reason: Reason


class AdvanceRequest(Struct, forbid_unknown_fields=True):
    """The step that ends: to repeat the request does no harm."""

    step: int
    reason: str = ""


class GateQuery(Struct, forbid_unknown_fields=True):
    """The weight that another tool is about to set, in percent."""

    weight: Annotated[float, Meta(ge=0, le=100)] = 0.0


class GateAnswer(Struct, rename={"passes": "pass"}):
    """Whether another tool may go on, and why; "wait" is neither yes nor no."""

    passes: bool
    verdict: Literal["pass", "wait", "fail"]
    reason: str
    share: float
    step: int
    alarm: int | None


class Page(Struct):
    """What the page shows: a document, unless the reader has seen it, and who reads it."""

    as_of: str
    seq: int
    document: dict[str, Any] | None
    live: dict[str, Any]


class PageQuery(Struct, forbid_unknown_fields=True):
    """The `seq` of the document that the reader has."""

    seen: int = -1


class OperateApi:
    """The endpoints of one release or run."""

    def __init__(self, served: Served, metrics: ServiceMetrics) -> None:
        self._served, self._metrics = served, metrics
        self._document: dict[str, Any] | None = None
        self._seq, self._next_at, self._lock = -1, 0.0, asyncio.Lock()

    @endpoint("GET", "/v1/status", "read")
    async def status(self, request: Request, body: None) -> Status:
        """What holds now, as of a moment ago."""
        if (found := self._served.status) is None:
            raise ApiError(503, "the store has not answered yet")
        return found

    @endpoint("POST", "/v1/halt", "operate")
    async def halt(self, request: Request, body: Why) -> dict[str, bool]:
        """Let the old system or safe policy answer everything, in every process."""
        actor, run = request.scope["tether.name"], self._served.run
        await self._served.call(lambda: run.halt(body.reason, actor=actor), invalid=409)
        await self._acted(request, "halt")
        return {"halted": True}

    @endpoint("POST", "/v1/resume", "operate")
    async def resume(self, request: Request, body: Why) -> dict[str, bool]:
        """Clear the alarms that stand; the ramp begins anew."""
        actor, run = request.scope["tether.name"], self._served.run
        await self._served.call(lambda: run.resume(body.reason, actor=actor), invalid=409)
        await self._acted(request, "resume")
        return {"halted": False}

    @endpoint("POST", "/v1/advance", "operate")
    async def advance(self, request: Request, body: AdvanceRequest) -> dict[str, float]:
        """End the present step, which the request names."""

        def job(t: Transaction) -> dict[str, float]:
            number = len(t.state.units)
            if number == body.step:
                self._served.run.next_step(t)
            elif number != body.step + 1:
                raise ApiError(409, f"step must be the present one, {number}, got {body.step}")
            return {"step": len(t.state.units), "share": t.state.share}

        begun = await self._served.do(job)
        await self._acted(request, "advance")
        return begun

    async def _acted(self, request: Request, act: str) -> None:
        """Count an act, log it, and see what holds now."""
        title = self._served.title
        self._metrics.count("operator_acts", title, act)
        fields = {"act": act, "actor": request.scope["tether.name"], "name": title}
        log.info("an operator acted", extra={"fields": fields})
        await self._served.look()

    @endpoint("GET", "/", None, media="text/html")
    async def page(self, request: Request, body: None) -> Response:
        """The live page, which has no data."""
        return HTMLResponse(page_html())

    @endpoint("GET", "/v1/document", "read", query=PageQuery)
    async def read(self, request: Request, body: None) -> Page:
        """What the page shows; it asks again and again, and gets a document that has changed."""
        served, seen = self._served, read_query(request, PageQuery).seen
        async with self._lock:
            seq, now, run = served.seq, time.monotonic(), served.run
            is_due = seq != self._seq and now >= self._next_at
            if self._document is None or (is_due and served.is_available):
                self._document = await served.call(
                    lambda: document(run.history(), title=served.title, last=UNITS_SHOWN)
                )
                spent, self._seq = time.monotonic() - now, seq
                self._next_at = now + max(DOCUMENT_SECONDS, spent / DOCUMENT_SHARE)
        scope = request.scope
        you = {"name": scope["tether.name"], "roles": sorted(scope["tether.roles"])}
        live = {
            "you": you,
            "outage": None
            if served.is_serving
            else "The store is unavailable: no promise applies.",
            "more": served.told(),
        }
        new = self._document if self._seq > seen else None
        as_of = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Page(as_of, max(seen, self._seq), new, live)


class GateApi:
    """The gate of a release."""

    def __init__(self, served: ServedRelease) -> None:
        self._served = served

    @endpoint("GET", "/v1/gate", "read", query=GateQuery)
    async def read_gate(self, request: Request, body: None) -> GateAnswer:
        """Whether another tool may go on."""
        weight = read_query(request, GateQuery).weight
        if 0 < weight < 1:
            raise ApiError(400, f"weight must be in percent (30 for 30 %), got {weight:g}")
        await self._served.look()  # not what held before
        status = self._served.status
        if status is None or not status.store_available:
            raise ApiError(503, "the store is unavailable: nobody knows whether an alarm stands")
        share = status.share or 0.0
        has = f"the new system has {100 * share:.5g} % of the keys"
        verdict: Any = "pass"
        if status.verdict == "fail":
            verdict, reason = "fail", "; ".join(status.warnings)
        elif share < weight / 100:
            verdict, reason = "wait", f"{has}, less than {weight:g} %"
        else:
            reason = f"no alarm stands, and no mean is shown to exceed; {has}"
        alarm = None if status.alarm is None else status.alarm.number
        return GateAnswer(verdict == "pass", verdict, reason, share, status.step.number, alarm)

    @endpoint("POST", "/v1/gate", "read", query=GateQuery)
    async def check_gate(self, request: Request, body: bytes) -> GateAnswer:
        """Whether another tool may go on, by the status: 412 if not; the body is not used."""
        answer = await self.read_gate(request, None)
        if not answer.passes:
            raise ApiError(412, f"{answer.verdict}: {answer.reason}")
        return answer


class ServiceApi:
    """What concerns the whole service; `schema` is set once all endpoints are known."""

    def __init__(self, served: list[Served], metrics: ServiceMetrics) -> None:
        self._served, self._metrics = served, metrics
        self.is_ready, self.schema = False, dict[str, Any]()

    @endpoint("GET", "/healthz", None)
    async def healthz(self, request: Request, body: None) -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @endpoint("GET", "/readyz", None)
    async def readyz(self, request: Request, body: None) -> dict[str, bool]:
        """Whether requests may be sent; also without the store, since "old" is an answer."""
        if not self.is_ready:
            raise ApiError(503, "the service is starting or shutting down")
        return {"ready": True, "store": all(each.is_serving for each in self._served)}

    @endpoint("GET", "/metrics", "read", media="text/plain")
    async def show_metrics(self, request: Request, body: None) -> Response:
        """Metrics for Prometheus."""
        for each in self._served:
            self._metrics.status(each.title, each.status)
        return Response(self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @endpoint("GET", "/openapi.json", None)
    async def show_schema(self, request: Request, body: None) -> dict[str, Any]:
        """The OpenAPI schema of everything that is answered here."""
        return self.schema

    @endpoint("GET", "/", None, media="text/html")
    async def index(self, request: Request, body: None) -> Response:
        """Links to the pages of several releases."""
        links = "".join(
            f'<li><a href="{each.prefix[1:]}/">{escape(each.title)}</a></li>'
            for each in self._served
        )
        page = '<!doctype html><html lang="en"><meta charset="utf-8"><title>tether</title>'
        return HTMLResponse(f"{page}<h1>Releases</h1><ul>{links}</ul></html>")
