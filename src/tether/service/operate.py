"""What those ask who operate a service: the status, the gate, acts, health, metrics, the schema.

The gate is for other rollout tools. `GET` tells in the body whether they may go on, as the web
metric of Argo Rollouts reads it; `POST` by the status, as Flagger's webhooks do. It fails when an
alarm stands or a guardrail's own mean is shown to exceed what is tolerated; where the store does
not answer nobody knows, and the status is 503. The status says the same.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from tether._version import __version__
from tether.runs.event_log import Transaction
from tether.runs.history import Estimate, moment
from tether.service.api import JSON_TYPE, ApiError, Endpoint, encode, openapi
from tether.service.metrics import ServiceMetrics
from tether.service.served import Measured, Present, Served, ServedRelease

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


class SystemMean(Struct):
    """The mean loss of a system since the ramp or round began, with a 95 % interval."""

    outcomes: int
    missing: int
    mean: float | None
    lower: float
    upper: float


class LossStatus(Struct):
    """One guardrail or loss."""

    tolerated: float | None
    delta: float
    ratio: float
    bound: float
    promise: float | None
    exceeds: str
    old: SystemMean
    new: SystemMean


class UnitStatus(Struct):
    """The present step or round; `level` is its share, or its log beta as text."""

    number: int
    begun: str
    level: float | str
    rows: int
    note: str
    policy: str | None


class AlarmStatus(Struct):
    """The alarm that stands."""

    number: int
    unit: int
    monitor: str
    message: str
    raised: str


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
    """The endpoints of one release or run; `more()` is what only its kind tells."""

    def __init__(
        self,
        served: Served,
        metrics: ServiceMetrics,
        more: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self._served, self._metrics, self._more = served, metrics, more

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        halt = "Let the old system or safe policy answer everything."
        found = [
            Endpoint(
                "GET", "/v1/status", "read", self.status, "What holds now.", None, (Status,), (503,)
            ),
            Endpoint("POST", "/v1/halt", "operate", self.halt, halt, Why, (Halted,), (503,)),
            Endpoint(
                "POST", "/v1/resume", "operate", self.resume, "Clear the alarms.", Why, (Halted,),
                (409, 503),
            ),
        ]  # fmt: skip
        if not isinstance(self._served, ServedRelease):
            return found
        told = "Whether another tool may go on, as the status code."
        return [
            *found,
            Endpoint(
                "POST", "/v1/advance", "operate", self.advance, "End the present step.",
                AdvanceRequest, (StepBegun,), (409, 503),
            ),
            Endpoint(
                "GET", "/v1/gate", "read", self.read_gate, "Whether another tool may go on.", None,
                (GateAnswer,), (400, 503), query=("weight",),
            ),
            Endpoint(
                "POST", "/v1/gate", "read", self.check_gate, told, bytes, (GateAnswer,),
                (400, CLOSED_STATUS, 503), query=("weight",),
            ),
        ]  # fmt: skip

    async def status(self, request: Request, body: None) -> Status:
        """Say what holds now, as of a moment ago."""
        served, present = self._served, self._served.present
        if present is None:
            raise ApiError(503, "the store has not answered yet")
        serving, failures = served.is_serving, present.failures
        fallback = "old system" if served.unit == "step" else "safe policy"
        told = sentence(present) if serving else UNAVAILABLE.format(fallback)
        warnings = [*([] if serving else [told]), *failures, *missing(present)]
        return Status(
            name=served.title,
            kind=served.run.settings.kind,
            state=told,
            verdict="unknown" if not serving else "fail" if failures else "pass",
            warnings=warnings,
            share=present.share if serving or present.share is None else 0.0,
            step=UnitStatus(
                present.number,
                present.begun,
                plain(present.level),
                present.rows,
                present.note,
                present.policy,
            ),
            alarm=alarm_status(present),
            losses={
                name: LossStatus(
                    *(each.limit.tolerated, each.limit.delta, each.limit.ratio, each.limit.bound),
                    present.promises.get(name) if serving else None,
                    each.exceeds,
                    systems(each)["old"],
                    systems(each)["new"],
                )
                for name, each in present.measured.items()
            },
            store_available=serving,
            more=self._more(),
            version=__version__,
        )

    async def halt(self, request: Request, body: Why) -> Halted:
        """Let the old system or safe policy answer, in every process."""
        run, actor = self._served.run, request.scope["tether.name"]
        call = self._served.call(lambda: run.halt(body.reason, actor=actor))
        await self.act(request, "halt", call)
        return Halted(True)

    async def resume(self, request: Request, body: Why) -> Halted:
        """Clear the alarms that stand; the ramp begins anew."""
        run, actor = self._served.run, request.scope["tether.name"]
        call = self._served.call(lambda: run.resume(body.reason, actor=actor))
        await self.act(request, "resume", call)
        return Halted(False)

    async def advance(self, request: Request, body: AdvanceRequest) -> StepBegun:
        """End the present step, after the losses that wait are stored."""
        served = self._served
        assert isinstance(served, ServedRelease)

        def job(t: Transaction) -> StepBegun:
            number = len(t.state.units)
            if number == body.step:
                served.release.next_step(t)
            elif number != body.step + 1:
                raise ApiError(409, f"step must be the present one, {number}, got {body.step}")
            last = t.state.units[-1]
            return StepBegun(last.number, t.state.share)

        begun: StepBegun = await self.act(request, "advance", served.do(job))
        return begun

    async def act(self, request: Request, name: str, doing: Awaitable[Any]) -> Any:
        """Do it, count it, log it, and see what holds then."""
        try:
            done = await doing
        except ValueError as error:
            raise ApiError(409, str(error)) from None
        self._metrics.count("operator_acts", self._served.title, name)
        fields = {"act": name, "actor": request.scope["tether.name"], "name": self._served.title}
        log.info("an operator acted", extra={"fields": fields})
        await self._served.look()
        return done

    async def read_gate(self, request: Request, body: None) -> GateAnswer:
        """Say whether the gate is open."""
        return await self._gate(request)

    async def check_gate(self, request: Request, body: bytes) -> Response:
        """Say it by the status; the body of the request is not used."""
        answer = await self._gate(request)
        status = 200 if answer.passes else CLOSED_STATUS
        return Response(encode(answer), status, media_type=JSON_TYPE)

    async def _gate(self, request: Request) -> GateAnswer:
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
            step=present.number,
            alarm=None if present.alarm is None else present.alarm.number,
            losses={name: systems(each) for name, each in present.measured.items()},
        )


class Health:
    """What those ask who run the service itself."""

    def __init__(self, served: list[Served], metrics: ServiceMetrics) -> None:
        self._served, self._metrics = served, metrics
        self.is_ready = False
        self._schema: dict[str, Any] = {}

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        return [
            Endpoint("GET", "/healthz", None, self.healthz, "Whether the process answers."),
            Endpoint(
                "GET", "/readyz", None, self.readyz, "Whether requests may be sent.", None, (Ready,)
            ),
            Endpoint(
                "GET", "/metrics", "read", self.show_metrics, "Metrics for Prometheus.",
                media="text/plain",
            ),
            Endpoint("GET", "/openapi.json", None, self.schema, "This schema."),
        ]  # fmt: skip

    def describe(self, title: str, endpoints: list[Endpoint]) -> None:
        """Take the endpoints that the schema describes: those of the whole service."""
        self._schema = openapi(title, endpoints)

    async def healthz(self, request: Request, body: None) -> dict[str, str]:
        """Say that the process answers."""
        return {"status": "ok"}

    async def readyz(self, request: Request, body: None) -> Ready:
        """Say whether requests may be sent here."""
        if not self.is_ready:
            raise ApiError(503, "the service is starting or shutting down")
        return Ready(True, all(each.is_serving for each in self._served))

    async def show_metrics(self, request: Request, body: None) -> Response:
        """Show the metrics."""
        for each in self._served:
            self._metrics.present(each.title, each.present, each.is_serving)
        return Response(self._metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def schema(self, request: Request, body: None) -> dict[str, Any]:
        """Show the OpenAPI schema."""
        return self._schema


def sentence(present: Present) -> str:
    """What holds now, in words."""
    if present.alarm is not None:
        return f"stopped by alarm {present.alarm.number}: {present.alarm.message}"
    if present.share is None:
        beta = math.exp(min(present.level, 700.0))
        return f"round {present.number} with a beta of {beta:.4g}"
    new, rows = ("system", "keys") if present.unit == "step" else ("policy", "actions")
    percent = f"{100 * present.share:.5g} %"
    return f"the new {new} has {percent} of the {rows} in {present.unit} {present.number}"


def missing(present: Present) -> list[str]:
    """Which outcomes are missing so much that they hold a share back."""
    return [
        f"{each.missing[system]} outcomes of {name} of the {system} system are missing"
        for name, each in present.measured.items()
        for system, found in (("old", each.old), ("new", each.new))
        if each.missing[system] >= max(20, 0.05 * (found.count + each.missing[system]))
    ]


def alarm_status(present: Present) -> AlarmStatus | None:
    """The alarm that stands, with its time as text."""
    if (alarm := present.alarm) is None:
        return None
    return AlarmStatus(alarm.number, alarm.unit, alarm.monitor, alarm.message, moment(alarm.raised))


def systems(measured: Measured) -> dict[str, SystemMean]:
    """Both systems, as plain numbers."""

    def shown(found: Estimate, unknown: int) -> SystemMean:
        numbers = asdict(found)
        mean = None if math.isnan(found.mean) else found.mean
        return SystemMean(found.count, unknown, mean, numbers["lower"], numbers["upper"])

    return {
        "old": shown(measured.old, measured.missing["old"]),
        "new": shown(measured.new, measured.missing["new"]),
    }


def plain(number: float) -> float | str:
    """A number as JSON can have it."""
    return number if math.isfinite(number) else str(number)


def read_weight(request: Request) -> float | None:
    """The weight that a request asks for, in percent."""
    given = request.query_params.multi_items()
    if not given:
        return None
    try:
        ((name, text),) = given
        weight = float(text)
    except ValueError:
        name, weight = "", math.nan
    if name != "weight" or not (weight == 0 or 1 <= weight <= 100):
        raise ApiError(
            400,
            f"the query may have one weight in percent, 0 or from 1 to 100 (30 for 30 %), got "
            f"{request.url.query!r:.80}",
        )
    return weight
