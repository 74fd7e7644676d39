"""A gate for other rollout tools: may they go on, as far as the release knows.

`GET` tells it in the body, as the web metric of Argo Rollouts reads it; `POST` by the status, as
Flagger's webhooks do. Where the store does not answer nobody knows, and the status is 503.
"""

from __future__ import annotations

import math
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.rounds.releases.closed_share import closed_share_advice
from tether.rounds.releases.served_release import ReleaseState
from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import (
    FLAG_SCHEMA,
    INTEGER_SCHEMA,
    NUMBER_SCHEMA,
    TEXT_SCHEMA,
    object_schema,
)
from tether.service.request_body import read_object
from tether.service.service import Service

GATE_PATH = "/v1/gate"
"""Where other tools ask."""
CLOSED_STATUS = 412
"""What `POST` answers where the gate is closed."""


class Gate:
    """The gate, which is open while no alarm stands and the share is what is asked for.

    Without a share to ask for it is closed too where the old system alone does not pass.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        known = object_schema({"mean": NUMBER_SCHEMA, "outcomes": INTEGER_SCHEMA})
        of_systems = object_schema({"old": known, "new": known}, optional=["old", "new"])
        result = object_schema(
            {
                "pass": FLAG_SCHEMA,
                "reason": TEXT_SCHEMA,
                "share": NUMBER_SCHEMA,
                "step": INTEGER_SCHEMA,
                "alarm": {"type": ["integer", "null"]},
                "losses": object_schema(
                    {name: of_systems for name in self._service.release.settings.limits}
                ),
            }
        )
        query = {"weight": NUMBER_SCHEMA | {"minimum": 0, "maximum": 100}}
        anything = object_schema({}, closed=False)
        told = "Whether another tool may go on, told by the status."
        return [
            Endpoint(
                "GET", GATE_PATH, "read", self.read, "Whether another tool may go on.",
                result=result, statuses=[400, 503], query=query,
            ),
            Endpoint(
                "POST", GATE_PATH, "read", self.check, told, anything, result,
                statuses=[400, CLOSED_STATUS, 503], query=query,
            ),
        ]  # fmt: skip

    async def read(self, request: Request) -> Response:
        """Say whether the gate is open."""
        return JSONResponse(await self._answer(request))

    async def check(self, request: Request) -> Response:
        """Say it by the status; the body of the request is not used, and may name no weight."""
        body = await read_object(request, self._service.settings.limits.body_bytes)
        if "weight" in body:
            raise ApiError(
                400,
                f"weight belongs in the query, as in {GATE_PATH}?weight=30, and not in the body, "
                f"got {body['weight']!r:.80}",
            )
        answer = await self._answer(request)
        return JSONResponse(answer, 200 if answer["pass"] else CLOSED_STATUS)

    async def _answer(self, request: Request) -> dict[str, Any]:
        weight = _weight(request)
        if not self._service.is_store_available:
            raise ApiError(503, "the store is unavailable: nobody knows whether an alarm stands")
        release = self._service.release
        state, losses, warnings = await self._service.call(  # not what held before
            lambda: (release.state(), release.present_losses(), release.warnings())
        )
        advice = closed_share_advice(state.step.ramp_share)
        reason = why_closed(state, weight, f"no share passes: {state.step.why}" if advice else "")
        return {
            "pass": reason is None,
            "reason": "; ".join([reason or why_open(state, weight), *warnings.values()]),
            "share": state.share,
            "step": state.step.number,
            "alarm": None if state.alarm is None else state.alarm.number,
            "losses": {
                name: {
                    system: {"mean": found[name].mean, "outcomes": found[name].count}
                    for system, found in losses.items()
                    if name in found
                }
                for name in release.settings.limits
            },
        }


def why_closed(state: ReleaseState, weight: float | None, closed: str = "") -> str | None:
    """Why another tool may not go on to a weight, in percent; None if it may.

    `closed` says why no share passes, if none does.
    """
    if state.alarm is not None:
        alarm = f"alarm {state.alarm.number} stands ({state.alarm.monitor}): {state.alarm.message}"
        return alarm if weight is None else f"{alarm}; {_compared(state, weight, 'asked for')}"
    if weight is not None and state.share < weight / 100:
        return _compared(state, weight, "less than")
    return closed or None if weight is None else None


def why_open(state: ReleaseState, weight: float | None) -> str:
    """Why another tool may go on."""
    if weight is None:
        return "no alarm stands"
    return f"no alarm stands, and {_compared(state, weight, 'at least')}"


def _compared(state: ReleaseState, weight: float, how: str) -> str:
    """The present share beside the weight that was asked for."""
    return f"the new system has {100 * state.share:.5g} % of the keys, {how} {weight:g} %"


def _weight(request: Request) -> float | None:
    """The weight that a request asks for, in percent."""
    given = request.query_params.multi_items()
    if not given:
        return None
    try:
        ((name, text),) = given
        weight = float(text)
    except ValueError:
        name, weight = "", math.nan
    if name != "weight" or not 0 <= weight <= 100:
        shown = str(request.url.query)
        raise ApiError(400, f"the query may have one weight, from 0 to 100, got {shown!r:.80}")
    if 0 < weight < 1:
        raise ApiError(
            400,
            f"weight is a percentage: 30 for 30 %; it must be 0 or from 1 to 100, got {weight:g}",
        )
    return weight
