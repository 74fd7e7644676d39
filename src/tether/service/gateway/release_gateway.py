"""The gateway of a release: OpenAI's endpoints in front of two upstreams.

Each request is a unit of the release. Its system is decided and stored, its upstream asked, and the
answer passed on as it is. The losses that can be seen from here are reported by themselves, to the
guardrails that the settings name:

- failure: 1 if the system gave no answer or a broken one, where the new system also fails if the
  old upstream had to answer for the new one, or if the client left after it had waited for longer
  than `slow_after` for the next part; otherwise 0, also if the client left sooner;
- latency: 1 if the first byte took longer than `slow_after`, or the client left after that without
  one; otherwise 0.

Both are functions of the unit alone, so they are losses like any other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.gateway.answer_parts import UpstreamError
from tether.service.gateway.first_units import FirstUnits
from tether.service.gateway.gateway_metrics import GatewayMetrics
from tether.service.gateway.loss_reports import LossReport, LossReports
from tether.service.gateway.openai_errors import NO_UPSTREAM, openai_error
from tether.service.gateway.relay import Question, Relay
from tether.service.gateway.unit_key import unit_key
from tether.service.gateway.unit_response import Unit, UnitResponse
from tether.service.json_schemas import TEXT_SCHEMA, object_schema
from tether.service.request_body import parse_object, read_content
from tether.service.service import Service
from tether.service.settings.gateway_table import GatewaySettings

CUT_OFF_WITHIN = 2.0
"""Seconds that answers take at most to end when the service cannot wait for them."""

log = logging.getLogger("tether.service")


class ReleaseGateway:
    """The endpoints of the gateway; `start` it, and `close` it before the service."""

    def __init__(self, service: Service, settings: GatewaySettings) -> None:
        self._service, self._settings = service, settings
        self._check_guardrails()
        self._metrics, self._first_units = GatewayMetrics(service.metrics.registry), FirstUnits()
        self._relay = Relay(settings, self._metrics)
        self._reports = LossReports(self._observe, self._metrics)
        self._under_way, self._all_ended = 0, asyncio.Event()
        self._all_ended.set()
        if settings.guardrails:
            service.made_rows = self._first_units.made

    def start(self) -> None:
        """Begin to report losses."""
        self._reports.start()
        if self._settings.failure_guardrail is None:
            log.warning(
                "gateway.failure_guardrail is not set: while the new upstream fails, what the old "
                "one answers for it counts for the new system"
            )

    async def close(self) -> None:
        """Store the losses that are known, also those of answers cut off; close connections."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_ended.wait(), CUT_OFF_WITHIN)
        await self._reports.close()
        await self._relay.close()

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        body = object_schema({"model": TEXT_SCHEMA}, optional=["model"], closed=False)
        texts = "Answer a chat (OpenAI).", "Complete a text (OpenAI)."
        return [
            Endpoint(
                "POST", "/v1/chat/completions", "decide", self.chat, texts[0], body, statuses=[502]
            ),
            Endpoint(
                "POST", "/v1/completions", "decide", self.complete, texts[1], body, statuses=[502]
            ),
            Endpoint(
                "GET", "/v1/models", "decide", self.models, "The old upstream's models (OpenAI).",
                statuses=[502],
            ),
        ]  # fmt: skip

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        return await self._response(request, "chat/completions")

    async def complete(self, request: Request) -> Response:
        """Complete a text."""
        return await self._response(request, "completions")

    async def models(self, request: Request) -> Response:
        """Show the models of the old upstream; this is no unit of the release."""
        try:
            answer = await self._relay.old.get("models", request.headers.raw)
        except UpstreamError as error:
            self._metrics.failure("old", error.reason)
            return JSONResponse(openai_error(502, NO_UPSTREAM), 502)
        response = Response(answer.content, answer.status)
        response.raw_headers += answer.headers
        return response

    async def _response(self, request: Request, path: str) -> Response:
        try:
            limit = self._service.settings.limits.body_bytes
            content = await read_content(request.headers, request.receive, limit)
            key = unit_key(request.headers, parse_object(content, forwarded=True))
        except ApiError as error:
            return JSONResponse(openai_error(error.status, error.message), error.status)
        begun = time.perf_counter()

        async def decide() -> Unit:
            system = (await self._service.decide([key]))[0]
            is_first = system is not None and self._first_units.claim(key, system)
            self._under_way += 1
            self._all_ended.clear()
            return Unit(key, system or "old", system is not None, is_first, begun)

        question = Question(path, content, request.headers.raw)
        patience = self._settings.slow_after
        return UnitResponse(question, decide, self._relay, self._metrics, self._end, patience)

    def _end(self, unit: Unit) -> None:
        """Report the losses of a unit that has ended."""
        self._under_way -= 1
        if not self._under_way:
            self._all_ended.set()
        if unit.is_first:
            self._report(unit)

    def _report(self, unit: Unit) -> None:
        settings, losses = self._settings, {}
        if settings.failure_guardrail is not None:
            losses[settings.failure_guardrail] = float(unit.failed)
        if settings.latency_guardrail is not None:
            is_slow = unit.waited is None or unit.waited > settings.slow_after
            losses[settings.latency_guardrail] = float(is_slow)
        if losses:
            self._reports.add(LossReport(unit.key, unit.system, losses))

    def _observe(self, reports: list[LossReport]) -> None:
        """Store losses, all of the same guardrails."""
        found = self._service.release.observe_counted(
            [each.key for each in reports],
            {name: [each.losses[name] for each in reports] for name in reports[0].losses},
            [each.system for each in reports],
            keep_first=True,
        )
        self._service.metrics.outcomes(found.counts, found.without_row)

    def _check_guardrails(self) -> None:
        """Refuse to report to what is no guardrail, or to one that cannot have a loss of 1."""
        known = self._service.release.settings.limits
        for option, name in self._settings.guardrails.items():
            if name not in known:
                raise ValueError(
                    f"gateway.{option} must be a guardrail of the release, {list(known)}, got "
                    f"{name!r:.80}"
                )
            if known[name].bound < 1:
                raise ValueError(
                    f"gateway.{option} must be a guardrail with a bound of at least 1, got "
                    f"{name!r}, whose bound is {known[name].bound:g}"
                )
