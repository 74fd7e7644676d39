"""What people do to what is served; each act is stored with the name of the API key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.rounds.errors import LossesMissingError
from tether.rounds.releases.beginning import StepOverError
from tether.rounds.served_run import NoSuchRoundError, ServedRun
from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import (
    FLAG_SCHEMA,
    INTEGER_SCHEMA,
    NUMBER_SCHEMA,
    REASON_SCHEMA,
    object_schema,
)
from tether.service.request_body import read_object, read_text, refuse_others
from tether.service.service import Service

_REASON = {"reason": REASON_SCHEMA}

log = logging.getLogger("tether.service")


class OperatorApi:
    """Halt, resume and advance."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        halted, why = object_schema({"halted": FLAG_SCHEMA}), object_schema(_REASON)
        step = object_schema({"step": INTEGER_SCHEMA, **_REASON})
        begun = object_schema({"step": INTEGER_SCHEMA, "share": NUMBER_SCHEMA})
        texts = (
            "Let the old system, or the safe policy, answer.",
            "Clear the alarms.",
            "End the present step.",
        )
        common = [
            Endpoint(
                "POST", "/v1/halt", "operate", self.halt, texts[0], why, halted, statuses=[503]
            ),
            Endpoint(
                "POST", "/v1/resume", "operate", self.resume, texts[1], why, halted,
                statuses=[409, 503],
            ),
        ]  # fmt: skip
        if isinstance(self._service.served, ServedRun):
            after = object_schema({"round": INTEGER_SCHEMA, **_REASON})
            next_round = object_schema({"beginning": INTEGER_SCHEMA})
            text, statuses = "Calibrate the next round, beside all requests.", [409, 503]
            return [
                *common,
                Endpoint(
                    "POST", "/v1/begin", "operate", self.begin, text, after, next_round,
                    statuses=statuses,
                ),
            ]  # fmt: skip
        by_hand = Endpoint(
            "POST", "/v1/advance", "operate", self.advance, texts[2], step, begun,
            statuses=[409, 503],
        )  # fmt: skip
        return [*common, by_hand]

    async def halt(self, request: Request) -> Response:
        """Let the old system answer all keys, in every process."""
        _, reason, actor = await self._asked(request)
        try:
            await self._act("halt", actor, lambda: self._service.served.halt(reason, actor=actor))
        except ApiError as error:
            if error.status != 503 or (outage := self._service.outage) is None:
                raise
            raise ApiError(
                503,
                f"the store is unavailable, and the halt is not stored: {outage.holds} until it "
                f"is back, and not after that. Repeat the request until it is stored",
            ) from error
        return JSONResponse({"halted": True})

    async def resume(self, request: Request) -> Response:
        """Clear the alarms that stand; the ramp begins anew."""
        _, reason, actor = await self._asked(request)
        await self._act("resume", actor, lambda: self._service.served.resume(reason, actor=actor))
        return JSONResponse({"halted": False})

    async def advance(self, request: Request) -> Response:
        """End the present step, which the request names: to repeat it does no harm."""
        number, reason, actor = await self._asked(request, "step")
        if isinstance(number, bool) or not isinstance(number, int):
            raise ApiError(400, f"step must be the number of the present step, got {number!r:.80}")
        end = self._service.release.end_step
        ended = await self._act("advance", actor, lambda: end(number, reason, actor=actor))
        return JSONResponse({"step": ended.number, "share": ended.share})

    async def begin(self, request: Request) -> Response:
        """Calibrate the round after the present one, which the request names, and begin it."""
        number, reason, actor = await self._asked(request, "round")
        if isinstance(number, bool) or not isinstance(number, int):
            raise ApiError(400, f"round must be that of the present round, got {number!r:.80}")
        begin = self._service.run.begin
        next_one = await self._act("begin", actor, lambda: begin(number, reason, actor=actor))
        return JSONResponse({"beginning": next_one}, 202)

    async def _asked(self, request: Request, number: str | None = None) -> tuple[Any, str, str]:
        """What a request names beside its reason, the reason, and who asks."""
        body = await read_object(request, self._service.settings.limits.body_bytes)
        refuse_others(body, ("reason",) if number is None else (number, "reason"))
        named = None if number is None else body.get(number)
        return named, read_text(body, "reason"), request.scope["tether.name"]

    async def _act(self, name: str, actor: str, act: Callable[[], Any]) -> Any:
        """Do it, count it and log it."""
        try:
            done = await self._service.act(act)
        except (StepOverError, NoSuchRoundError, LossesMissingError) as error:
            raise ApiError(409, str(error)) from None
        except ValueError as error:
            raise ApiError(409 if name == "resume" else 400, str(error)) from None
        self._service.metrics.act(name)
        log.info("an operator acted", extra={"fields": {"act": name, "actor": actor}})
        seen = asyncio.wrap_future(self._service.follower.refresh())
        with suppress(TimeoutError):  # it is stored; a step may be computed just now
            await asyncio.wait_for(seen, self._service.settings.limits.store_deadline)
        return done
