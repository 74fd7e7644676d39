"""Any run of a `Controller` behind HTTP: actions, outcomes, and rounds that begin beside.

All of it may be repeated: an action under its idempotency key, and a loss that is stored already.
Ids are text, since those of actions that wait in an outbox are larger than a JavaScript number.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from starlette.requests import Request

from tether._core.contexts import length
from tether._core.files import import_path, redact_text
from tether.runs import Controller
from tether.runs.actions import Actions
from tether.runs.errors import RoundOverError
from tether.service.api import ApiError, endpoint
from tether.service.served import MOST_ITEMS, Served, Why, loss_columns, refusals
from tether.service.settings import ServiceSettings

_SAID_BY_SERVER = re.compile(r"(\bstatus \d{3}): .*", re.DOTALL)

Id = Annotated[str, Meta(pattern=r"^[0-9]{1,19}$")] | Annotated[int, Meta(ge=0)]
Improve = Callable[[Any], Any] | None
log = logging.getLogger("tether.service")


class OneContext(Struct, forbid_unknown_fields=True):
    """A context; null where the run has none."""

    context: Any


class ManyContexts(Struct, forbid_unknown_fields=True):
    """Several contexts, or nulls."""

    contexts: Annotated[list[Any], Meta(min_length=1, max_length=MOST_ITEMS)]


class Action(Struct):
    """An action, the id under which its loss is reported, and who took it."""

    id: str
    action: Any
    served: str
    stored: bool


class RunOutcome(Struct, forbid_unknown_fields=True):
    """What an action cost and brought; `loss` where the run has one loss."""

    id: Id
    loss: float | None = None
    losses: dict[str, float] | None = None
    reward: float | None = None

    def named(self, known: Sequence[str]) -> dict[str, float]:
        """The losses by name."""
        if self.losses is not None and self.loss is None:
            return self.losses
        if self.loss is None or self.losses is not None or len(known) > 1:
            raise ApiError(400, f"an outcome has either loss or losses; this run has {known}")
        return {known[0]: self.loss}


class ManyRunOutcomes(Struct, forbid_unknown_fields=True):
    """Several outcomes."""

    outcomes: Annotated[list[RunOutcome], Meta(max_length=MOST_ITEMS)]


class BeginRequest(Why, forbid_unknown_fields=True):
    """The round that is followed by another: to repeat the request does no harm."""

    round: int


def contexts_from_json(values: Sequence[Any]) -> Any:
    """Contexts of JSON values: their number for nulls, floats for numbers and lists of them."""
    if all(each is None for each in values):
        return len(values)
    if all(isinstance(each, str) for each in values):
        return np.array(values, dtype=object)
    with suppress(ValueError):  # lists of different lengths
        found = np.array(values)
        if found.dtype.kind in "biuf":
            return found if found.dtype.kind == "b" else found.astype(np.float64)
    raise ValueError(
        f"contexts must be null, text, or numbers and lists of numbers of one length, got "
        f"{values[0]!r:.80}; for others name a function as run.contexts"
    )


class ServedRun(Served):
    """A run that is served, and closed if that fails; its rounds begin beside all requests.

    `improve(rows)` makes the next policy of training rows, and `name` is the name of that policy.
    """

    run: Controller
    calls_at_once = 4  # others wait

    def __init__(
        self, title: str, run: Controller, deadline: float, improve: Improve, name: str | None
    ) -> None:
        super().__init__(title, run, deadline)
        self._improve, self._name = improve, name
        self._ending = Event()
        try:
            self._round = run.round or run.begin()
        except BaseException:
            run.close()
            raise
        self._threads = ThreadPoolExecutor(self.calls_at_once, "tether-actions")
        self._beginning: int | None = None
        self._begin_failure, self._fails = "", False

    async def close(self) -> None:
        """Let actions end that wait for a model, and close the store."""
        self._ending.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        await super().close()

    async def soon(self, call: Callable[[], Actions], hidden: str = "") -> Actions:
        """The actions of a call, in a thread; errors do not show the text `hidden`."""
        loop = asyncio.get_running_loop()
        try:
            with refusals(None):
                taken = await loop.run_in_executor(self._threads, call)
        except (ValueError, TypeError, RecursionError, RuntimeError) as error:
            text = str(error).replace(hidden, "the upstream") if hidden else str(error)
            if isinstance(error, RuntimeError) and not isinstance(error, RecursionError):
                log.error("the safe policy is unavailable: %s", without_bodies(text))
                raise ApiError(502, "the safe policy is unavailable") from error
            raise ApiError(409 if "used for another context" in text else 400, text) from error
        self._note(taken)
        return taken

    def act(self, contexts: Any, key: str | None = None) -> Actions:
        """Take an action in each context of a call, in the present round."""
        count, keys = length(contexts), None
        if key is not None:
            keys = [key] if count == 1 else [f"{key}/{place}" for place in range(count)]
        rng = np.random.default_rng()
        try:
            return self._round.act(contexts, rng, keys=keys)
        except RoundOverError:
            self._round = self.run.round or self._round
            return self._round.act(contexts, rng, keys=keys)

    def _note(self, taken: Actions) -> None:
        """Count actions, and log when failures of the round's policy begin and end."""
        stored = str(taken.stored).lower()
        for who, count in Counter("tethered" if by else "safe" for by in taken.served).items():
            self.metrics.of("actions", self.title, who, stored).inc(count)
        self.takes_rows = taken.stored
        if bool(taken.failure) != self._fails:
            self._fails = bool(taken.failure)
            told = f"the safe policy acts instead of the round's: {without_bodies(taken.failure)}"
            log.warning(told if self._fails else "the policy of the round acts again")

    def _begin(self) -> None:
        try:
            assert self._improve is not None
            policy = self._improve(self.run.training_rows())
            self._round = self.run.begin(policy, name=self._name)
        except Exception as error:
            self._begin_failure = redact_text(f"{type(error).__name__}: {error}")
            log.exception("a round did not begin")
        finally:
            self._beginning = None

    def told(self) -> dict[str, Any]:
        """What only a run tells in its status."""
        return {
            "may_begin": self._improve is not None,
            "beginning": self._beginning,
            "begin_failure": self._begin_failure,
        }

    # ---- endpoints ------------------------------------------------------------------------------

    @endpoint("POST", "/v1/outcomes", "report")
    async def post_outcomes(
        self, request: Request, body: RunOutcome | ManyRunOutcomes
    ) -> dict[str, int]:
        """Store what actions cost and brought: all of a request, or nothing."""
        given = [body] if isinstance(body, RunOutcome) else body.outcomes
        if not given:
            return {"new": 0}
        known, ids = list(self.run.settings.limits), [int(each.id) for each in given]
        losses = loss_columns([each.named(known) for each in given])
        rewards = [math.nan if each.reward is None else each.reward for each in given]
        with refusals():
            new = await asyncio.to_thread(self.run.observe, ids, losses, rewards)
        self.metrics.of("outcomes", self.title).inc(new)
        return {"new": new}

    @endpoint("POST", "/v1/begin", "operate", status=202)
    async def post_begin(self, request: Request, body: BeginRequest) -> dict[str, int]:
        """Calibrate and begin the next round, beside all requests."""
        if self._improve is None:
            raise ApiError(409, "run.optimized names no function that makes the next policy")
        seen = 0 if self.seen is None else self.seen.step.number
        present = max(seen, self._round.number)  # which may have begun since
        if self._beginning is None and body.round == present:
            self._beginning, self._begin_failure = present + 1, ""
            try:
                await self._act(
                    request, "begin", lambda who: self.run.append_act("begin", body.reason, who)
                )
            except BaseException:
                self._beginning = None
                raise
            Thread(target=self._begin, name="tether-begin", daemon=True).start()
        elif body.round + 1 not in (present, self._beginning):
            raise ApiError(409, f"round must be the present one, {present}, got {body.round}")
        return {"beginning": body.round + 1}


class ActingRun(ServedRun):
    """A run that acts in contexts of JSON values, made contexts by `convert(values)`."""

    convert: Callable[[Sequence[Any]], Any]

    @endpoint("POST", "/v1/actions", "decide")
    async def post_actions(
        self, request: Request, body: OneContext | ManyContexts
    ) -> Action | dict[str, list[Action]]:
        """Take an action in a context, or in each of many."""
        contexts = [body.context] if isinstance(body, OneContext) else body.contexts
        key, convert = request.headers.get("idempotency-key"), self.convert
        taken = await self.soon(lambda: self.act(convert(contexts), key))
        rows = zip(taken.ids.tolist(), taken.actions.tolist(), taken.served.tolist(), strict=True)
        made = [Action(str(row), act, served_by(by), taken.stored) for row, act, by in rows]
        return made[0] if isinstance(body, OneContext) else {"actions": made}


def open_run(settings: ServiceSettings) -> ServedRun:
    """The run of a service, open: functions of the user make the controller and its policies."""
    assert settings.run is not None
    table, folder = settings.run, settings.folder
    make = import_from(table.controller, folder)
    improve = table.optimized and import_from(table.optimized, folder)
    convert = table.contexts and import_from(table.contexts, folder)
    made = make() if table.store is None else make(settings.store_at(table.store))
    if not isinstance(made, Controller):
        raise TypeError(f"run.controller must return a tether.Controller, got {made!r:.80}")
    served = ActingRun("run", made, settings.limits.store_deadline, improve or None, None)
    served.convert = convert or contexts_from_json
    return served


def import_from(path: str, folder: str) -> Any:
    """What is at an import path; `folder` is searched too, after everything else."""
    if (place := str(Path(folder).resolve())) not in sys.path:
        sys.path.append(place)
    return import_path(path)


def without_bodies(message: str) -> str:
    """An error without what a server says about it, which may repeat what it was asked."""
    return _SAID_BY_SERVER.sub(r"\1", message)


def served_by(number: int) -> str:
    """Who took an action: the safe policy for 0, otherwise that of a round."""
    return f"round {number}" if number else "safe"
