"""The JSON API of a run: actions, in one context or in many.

Ids are text, since those of actions that were spooled are larger than a JavaScript number can be.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.rounds.json_rows import actions_to_json
from tether.rounds.recording import MAX_KEY_LENGTH
from tether.rounds.returned_rows import TakenActions
from tether.service.api_errors import ApiError
from tether.service.call_batches import CallBatches
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import (
    FLAG_SCHEMA,
    TEXT_SCHEMA,
    list_schema,
    object_schema,
)
from tether.service.request_body import read_object, refuse_others
from tether.service.runs.acted import Acted
from tether.service.runs.action_batches import ActionRequest, act_together
from tether.service.runs.served_by import served_by
from tether.service.service import Service

ANY_SCHEMA: dict[str, Any] = {}


class ActionsApi:
    """The endpoint for actions."""

    def __init__(self, service: Service) -> None:
        self._service, self._limits = service, service.settings.limits
        table = service.settings.run
        self._batches: CallBatches[ActionRequest, TakenActions] = CallBatches(
            lambda requests: act_together(service.run, requests),
            at_once=1 if table is None else table.calls_at_once,
            name="tether-actions",
        )
        self._acted = Acted(service)
        service.closing.append(self._batches.close)

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        key = {"idempotency_key": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH}}
        action = object_schema(
            {"id": TEXT_SCHEMA, "action": ANY_SCHEMA, "served": TEXT_SCHEMA, "stored": FLAG_SCHEMA}
        )
        asked = [
            object_schema({"context": ANY_SCHEMA, **key}, optional=list(key)),
            object_schema({"contexts": list_schema(ANY_SCHEMA), **key}, optional=list(key)),
        ]
        taken = [action, object_schema({"actions": list_schema(action)})]
        return [
            Endpoint(
                "POST", "/v1/actions", "decide", self.actions, "Take an action in each context.",
                {"oneOf": asked}, {"oneOf": taken}, statuses=[409, 502, 503],
            ),
        ]  # fmt: skip

    async def actions(self, request: Request) -> Response:
        """Take an action in a context, or in each of many."""
        body = await read_object(request, self._limits.body_bytes)
        refuse_others(body, ("context", "contexts", "idempotency_key"))
        if ("context" in body) == ("contexts" in body):
            raise ApiError(400, "the body must have either context or contexts")
        key = body.get("idempotency_key")
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY_LENGTH):
            raise ApiError(
                400, f"idempotency_key must be text of 1 to {MAX_KEY_LENGTH}, got {key!r:.80}"
            )
        contexts, most = body.get("contexts", [body.get("context")]), self._limits.items_per_request
        if not isinstance(contexts, list) or not 0 < len(contexts) <= most:
            raise ApiError(400, f"contexts must be a list of 1 to {most:,}, got {contexts!r:.80}")
        with self._acted.refused():
            taken = await self._batches.ask(ActionRequest(contexts, key))
        self._acted.note(taken)
        made = _rows(taken)
        return JSONResponse(made[0] if "context" in body else {"actions": made})


def _rows(taken: TakenActions) -> list[dict[str, Any]]:
    served = np.broadcast_to(taken.served, len(taken)).tolist()
    rows = zip(taken.ids.tolist(), actions_to_json(taken.actions), served, strict=True)
    return [
        {"id": str(each), "action": action, "served": served_by(by), "stored": taken.stored}
        for each, action, by in rows
    ]
