"""What those ask who operate a service: the status, the gate, acts, health, metrics, the schema.

The gate is for other rollout tools. `GET` tells in the body whether they may go on, as the web
metric of Argo Rollouts reads it; `POST` by the status, as Flagger's webhooks do. It fails when an
alarm stands or a guardrail's own mean is shown to exceed what is tolerated; where the store does
not answer nobody knows, and the status is 503. The status says the same.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from tether._version import __version__
from tether.runs.event_log import Transaction
from tether.service.api import ApiError, endpoint, json_response
from tether.service.metrics import ServiceMetrics
from tether.service.served import (
    AlarmStatus,
    LossStatus,
    Present,
    Served,
    ServedRelease,
    SystemMean,
    UnitStatus,
)

CLOSED_STATUS = 412
"""What `POST` answers where the gate is not open."""
UNAVAILABLE = "the store is unavailable: the {} answers everything, and no promise applies"

Reason = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"\S")]
log = logging.getLogger("tether.service")


class Why(Struct, forbid_unknown_fields=True):
    """The reason of an act, which is stored with the name of the API key."""

    reason: Reason


class AdvanceRequest(Struct, forbid_unknown_fields=True):
    """The step that ends: to repeat the request does no harm."""

    step: int
    reason: str = ""


class Halted(Struct):
    """Whether only the old system or safe policy answers."""

    halted: bool


class StepBegun(Struct):
    """The step that has begun."""

    step: int
    share: float


class Status(Struct):
    """What holds now."""

    name: str
    kind: str
    state: str
    verdict: Literal["pass", "fail", "unknown"]
    warnings: list[str]
    share: float | None
    step: UnitStatus
    alarm: AlarmStatus | None
    losses: dict[str, LossStatus]
    store_available: bool
    more: dict[str, Any]
    version: str


class GateAnswer(Struct, rename={"passes": "pass"}):
    """Whether another tool may go on, and why; "wait" is neither yes nor no."""

    passes: bool
    verdict: Literal["pass", "wait", "fail"]
    reason: str
    share: float
    step: int
    alarm: int | None
    losses: dict[str, dict[str, SystemMean]]


class Ready(Struct):
    """Whether requests may be sent; also without the store, since "old" is an answer."""

    ready: bool
    store: bool


class OperateApi:
    """The endpoints of one release or run."""

    def __init__(self, served: Served, metrics: ServiceMetrics) -> None:
        self._served, self._metrics = served, metrics

    @endpoint("GET", "/v1/status", "read", 503)
    async def status(self, request: Request, body: None) -> Status:
        """What holds now, as of a moment ago."""
        served, present = self._served, self._served.present
        if present is None:
            raise ApiError(503, "the store has not answered yet")
        serving, warnings = served.is_serving, [*present.failures, *missing(present)]
        told, share, losses = present.sentence, present.share, present.losses
        verdict: Any = "fail" if present.failures else "pass"
        if not serving:
            fallback = "old system" if served.unit == "step" else "safe policy"
            told, verdict = UNAVAILABLE.format(fallback), "unknown"
            warnings, share = [told, *warnings], None if share is None else 0.0
            losses = {n: msgspec.structs.replace(x, promise=None) for n, x in losses.items()}
        return Status(
            name=served.title,
            kind=served.run.settings.kind,
            state=told,
            verdict=verdict,
            warnings=warnings,
            share=share,
            step=present.step,
            alarm=present.alarm,
            losses=losses,
            store_available=serving,
            more=served.told(),
            version=__version__,
        )

    @endpoint("POST", "/v1/halt", "operate", 409, 503)
    async def halt(self, request: Request, body: Why) -> Halted:
        """Let the old system or safe policy answer everything, in every process."""
        run, actor = self._served.run, request.scope["tether.name"]
        await self._act(
            actor, "halt", self._served.call(lambda: run.halt(body.reason, actor=actor))
        )
        return Halted(True)

    @endpoint("POST", "/v1/resume", "operate", 409, 503)
    async def resume(self, request: Request, body: Why) -> Halted:
        """Clear the alarms that stand; the ramp begins anew."""
        run, actor = self._served.run, request.scope["tether.name"]
        call = self._served.call(lambda: run.resume(body.reason, actor=actor))
        await self._act(actor, "resume", call)
        return Halted(False)

    @endpoint("POST", "/v1/advance", "operate", 409, 503)
    async def advance(self, request: Request, body: AdvanceRequest) -> StepBegun:
        """End the present step, which the request names."""

        def job(t: Transaction) -> StepBegun:
            number = len(t.state.units)
            if number == body.step:
                self._served.run.next_step(t)
            elif number != body.step + 1:
                raise ApiError(409, f"step must be the present one, {number}, got {body.step}")
            return StepBegun(len(t.state.units), t.state.share)

        actor = request.scope["tether.name"]
        begun: StepBegun = await self._act(actor, "advance", self._served.do(job))
        return begun

    async def _act(self, actor: str, name: str, doing: Awaitable[Any]) -> Any:
        """Do it, count it, log it, and see what holds then."""
        try:
            done = await doing
        except ValueError as error:
            raise ApiError(409, str(error)) from None
        self._metrics.count("operator_acts", self._served.title, name)
        fields = {"act": name, "actor": actor, "name": self._served.title}
        log.info("an operator acted", extra={"fields": fields})
        await self._served.look()
        return done


class GateApi:
    """The gate of a release."""

    def __init__(self, served: ServedRelease) -> None:
        self._served = served

    @endpoint("GET", "/v1/gate", "read", 400, 503, query=("weight",))
    async def read_gate(self, request: Request, body: None) -> GateAnswer:
        """Whether another tool may go on."""
        weight = read_weight(request)
        await self._served.look()  # not what held before
        present = self._served.present
        if present is None or not self._served.is_serving:
            raise ApiError(503, "the store is unavailable: nobody knows whether an alarm stands")
        share = present.share or 0.0
        has = f"the new system has {100 * share:.5g} % of the keys"
        if present.failures:
            verdict, reason = "fail", "; ".join(present.failures)
        elif weight is not None and share < weight / 100:
            verdict, reason = "wait", f"{has}, less than {weight:g} %"
        else:
            verdict, reason = "pass", "no alarm stands, and no mean is shown to exceed"
            reason += "" if weight is None else f"; {has}, at least {weight:g} %"
        return GateAnswer(
            passes=verdict == "pass",
            verdict=verdict,  # type: ignore[arg-type]
            reason=reason,
            share=share,
            step=present.step.number,
            alarm=None if present.alarm is None else present.alarm.number,
            losses={name: {"old": x.old, "new": x.new} for name, x in present.losses.items()},
        )

    @endpoint(
        "POST",
        "/v1/gate",
        "read",
        400,
        CLOSED_STATUS,
        503,
        query=("weight",),
        results=(GateAnswer,),
    )
    async def check_gate(self, request: Request, body: bytes) -> Response:
        """Whether another tool may go on, as the status; the body is not used."""
        answer = await self.read_gate(request, None)
        return json_response(answer, 200 if answer.passes else CLOSED_STATUS)


class HealthApi:
    """What those ask who run the service itself; `schema` is set once all endpoints are known."""

    def __init__(self, served: list[Served], metrics: ServiceMetrics) -> None:
        self._served, self._metrics = served, metrics
        self.is_ready, self.schema = False, dict[str, Any]()

    @endpoint("GET", "/healthz", None)
    async def healthz(self, request: Request, body: None) -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @endpoint("GET", "/readyz", None)
    async def readyz(self, request: Request, body: None) -> Ready:
        """Whether requests may be sent."""
        if not self.is_ready:
            raise ApiError(503, "the service is starting or shutting down")
        return Ready(True, all(each.is_serving for each in self._served))

    @endpoint("GET", "/metrics", "read", media="text/plain")
    async def show_metrics(self, request: Request, body: None) -> Response:
        """Metrics for Prometheus."""
        for each in self._served:
            self._metrics.present(each.title, each.present, each.is_serving)
        return Response(self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @endpoint("GET", "/openapi.json", None)
    async def show_schema(self, request: Request, body: None) -> dict[str, Any]:
        """The OpenAPI schema of everything that is answered here."""
        return self.schema


def missing(present: Present) -> list[str]:
    """Which outcomes are missing so much that they hold a share back."""
    return [
        f"{found.missing} outcomes of {name} of the {system} system are missing"
        for name, each in present.losses.items()
        for system, found in (("old", each.old), ("new", each.new))
        if found.missing >= max(20, 0.05 * (found.outcomes + found.missing))
    ]


def read_weight(request: Request) -> float | None:
    """The weight that a request asks for, in percent."""
    given = request.query_params.multi_items()
    if not given:
        return None
    try:
        ((name, text),) = given
        if name == "weight" and ((weight := float(text)) == 0 or 1 <= weight <= 100):
            return weight
    except ValueError:
        pass
    raise ApiError(
        400,
        f"the query may have one weight in percent, 0 or from 1 to 100 (30 for 30 %), got "
        f"{request.url.query!r:.80}",
    )
