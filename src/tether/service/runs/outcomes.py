"""Outcomes of actions: losses and rewards, alone and in bulk. All of it may be repeated."""

from __future__ import annotations

import sys
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tether.rounds.errors import FinalLossError
from tether.service.api_errors import ApiError
from tether.service.endpoint import Endpoint
from tether.service.json_schemas import (
    INTEGER_SCHEMA,
    NUMBER_SCHEMA,
    list_schema,
    object_schema,
)
from tether.service.request_body import read_object, refuse_others
from tether.service.service import Service
from tether.service.shown_loss import shown_loss

RUN_OUTCOME_FIELDS = ("id", "loss", "losses", "reward")
"""What the outcome of an action consists of."""
MAX_ID = 2**63 - 1
"""The largest id."""
_ID_SCHEMA = {"oneOf": [{"type": "string", "pattern": "^[0-9]{1,19}$"}, {"type": "integer"}]}


class OutcomesApi:
    """The endpoint for losses and rewards."""

    def __init__(self, service: Service) -> None:
        self._service, self._limits = service, service.settings.limits
        self._losses = service.served.settings.limits
        service.metrics.outcomes({("", name): 0 for name in self._losses})

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        names = list(self._losses)
        loss = NUMBER_SCHEMA | {"minimum": 0}
        losses = object_schema({name: loss for name in names}, optional=names)
        fields: dict[str, Any] = {"id": _ID_SCHEMA, "losses": losses, "reward": NUMBER_SCHEMA}
        if len(names) == 1:
            fields["loss"] = loss
        outcome = object_schema(fields, optional=["loss", "losses", "reward"])
        bodies = [outcome, object_schema({"outcomes": list_schema(outcome)})]
        return [
            Endpoint(
                "POST", "/v1/outcomes", "report", self.outcomes, "Store losses and rewards.",
                {"oneOf": bodies}, object_schema({"new": INTEGER_SCHEMA}), statuses=[409, 503],
            )
        ]  # fmt: skip

    async def outcomes(self, request: Request) -> Response:
        """Store what actions cost and brought: all of a request, or nothing."""
        body = await read_object(request, self._limits.body_bytes)
        is_one, most = "outcomes" not in body, self._limits.items_per_request
        if not is_one:
            refuse_others(body, ("outcomes",))
        given = [body] if is_one else body["outcomes"]
        if not isinstance(given, list) or len(given) > most:
            raise ApiError(400, f"outcomes must be a list of at most {most:,}, got {given!r:.80}")
        ids: list[int] = []
        columns: dict[str, list[float]] = {}
        for place, each in enumerate(given):
            where = "the body" if is_one else f"outcomes[{place}]"
            number, values = self._outcome(each, where)
            if place and values.keys() != columns.keys():
                raise ApiError(
                    400,
                    f"all outcomes of a request must have the same fields, got {list(values)} in "
                    f"{where} and {list(columns)} before: send them separately",
                )
            ids.append(number)
            for name, value in values.items():
                columns.setdefault(name, []).append(value)
        rewards = columns.pop(_REWARD, None)
        run = self._service.run
        try:
            new: dict[str, int] = {}
            if ids:
                new = await self._service.call(lambda: run.observe(ids, columns, rewards))
        except (ValueError, TypeError) as error:
            is_final = isinstance(error, FinalLossError)
            raise ApiError(409 if is_final else 400, str(error)) from None
        self._service.metrics.outcomes({("", name): count for name, count in new.items()})
        return JSONResponse({"new": sum(new.values())})

    def _outcome(self, given: Any, where: str) -> tuple[int, dict[str, float]]:
        """The id and the values of one outcome; the reward stands under a name of its own."""
        if not isinstance(given, dict):
            raise ApiError(400, f"{where} must be an object, got {type(given).__name__}")
        refuse_others(given, RUN_OUTCOME_FIELDS, where)
        known, losses = list(self._losses), given.get("losses", {})
        if not isinstance(losses, dict) or not losses.keys() <= set(known):
            raise ApiError(400, f"losses of {where} must have some of {known}, got {losses!r:.80}")
        if "loss" in given and (len(known) > 1 or losses):
            raise ApiError(400, f"{where} must have losses by name, some of {known}, and no loss")
        named = dict(losses) if "loss" not in given else {known[0]: given["loss"]}
        if not named:
            raise ApiError(400, f"{where} must have a loss")
        for name, loss in named.items():
            bound = self._losses[name].bound
            if not _is_number(loss) or not 0 <= loss <= bound:
                raise ApiError(
                    400,
                    f"loss {name!r} of {where} must be a number from 0 to {bound:g}, got "
                    f"{shown_loss(loss, bound)}",
                )
        values = {name: float(loss) for name, loss in named.items()}
        if "reward" in given:
            if not _is_number(given["reward"]) or not abs(given["reward"]) <= _LARGEST:
                raise ApiError(
                    400, f"reward of {where} must be a number, got {given['reward']!r:.80}"
                )
            values[_REWARD] = float(given["reward"])
        return _read_id(given.get("id"), where), values


_LARGEST = sys.float_info.max  # a larger integer is no float
_REWARD = "\0reward"  # no name of a loss


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _read_id(value: Any, where: str) -> int:
    """An id, as text or as an integer."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_ID:
        raise ApiError(400, f"id of {where} must be that of an action, got {value!r:.80}")
    return value
