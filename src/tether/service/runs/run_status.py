"""The status of a run: its round, what is promised, and whether the next one begins."""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether._core.files import redact_text
from tether._version import __version__
from tether.rounds.json_rows import json_number
from tether.rounds.run_state import RunState
from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import INTEGER_SCHEMA, object_schema
from tether.service.service import Service


class RunStatus:
    """The endpoint for the status."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        return [
            Endpoint(
                "GET", "/v1/status", "read", self.status, "What holds now.",
                result=object_schema({"round": INTEGER_SCHEMA}, closed=False), statuses=[503],
            )
        ]  # fmt: skip

    async def status(self, request: Request) -> Response:
        """Say what holds now, as of a moment ago."""
        state, settings = self._service.follower.state, self._service.run.settings
        if not isinstance(state, RunState):
            raise ApiError(503, "the store has not answered yet")
        outage = self._service.outage
        level = state.shown_level if outage is None else dict.fromkeys(state.level, 0.0)
        promises = state.promises if outage is None else {}  # the safe policy alone acts
        losses = {
            name: {
                "tolerated": limit.alpha,
                "bound": limit.bound,
                "alarm_risk": limit.alarm_risk,
                "promise": _shown(promises.get(name)),
            }
            for name, limit in settings.limits.items()
        }
        return JSONResponse(
            {
                "round": state.number,
                "begun": state.begun,
                "policy": state.policy,
                **level,
                "note": state.note,
                "alarm": None if state.alarm is None else asdict(state.alarm),
                "beginning": state.beginning,
                "begin_failure": redact_text(state.begin_failure),
                "target": settings.target,
                "confidence": settings.confidence,
                "losses": losses,
                "store_available": outage is None,
                "version": __version__,
            }
        )


def _shown(promise: float | None) -> float | str | None:
    return None if promise is None else json_number(promise)
