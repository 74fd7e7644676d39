"""What a service stands in front of: its status, its page, and what people do with it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from tether.runs import Controller, Release
from tether.runs.errors import FinalLossError, StoreError
from tether.runs.event_log import Transaction
from tether.service.api import ApiError, endpoint
from tether.service.status import OUTAGE, ServiceMetrics, Status, measure, read_status
from tether.view import document, page_html

FOLLOW_SECONDS = 0.5
"""How often the store is looked at, beside all requests."""
MEASURE_SHARE, DOCUMENT_SHARE = 0.02, 0.05
"""At most these parts of the time go into means, and into documents."""
UNITS_SHOWN = 200
"""How many steps or rounds the page shows."""
MOST_ITEMS = 1_000
"""How many keys, contexts or outcomes a request may have."""

Result = TypeVar("Result")
log = logging.getLogger("tether.service")


class Why(Struct, forbid_unknown_fields=True):
    """The reason of an act, which is stored with the name of the API key."""

    reason: Annotated[str, Meta(min_length=1, max_length=1_000, pattern=r"\S")]


class AdvanceRequest(Struct, forbid_unknown_fields=True):
    """The step that ends: to repeat the request does no harm."""

    step: int
    reason: str = ""


class PageQuery(Struct, forbid_unknown_fields=True):
    """The `seq` of the document that the reader has."""

    seen: int = -1


class Seldom:
    """What takes as long as the log has rows: made for a part of the time, if the log has grown."""

    def __init__(self, share: float) -> None:
        self._share, self._not_before = share, 0.0
        self.seq, self.made = -1, dict[str, Any]()

    def make(self, seq: int, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What is made now, or was a moment ago."""
        begun = time.monotonic()
        if seq != self.seq and begun >= self._not_before:
            self.seq, self.made = seq, call()
            spent = time.monotonic() - begun
            self._not_before = begun + spent + max(FOLLOW_SECONDS, spent / self._share)
        return self.made


class Served:
    """A run that is served below a path.

    Whenever it was looked at, `noticed` is told, with what was seen of the store before, and
    whether it was available.
    """

    unit, prefix = "round", ""

    def __init__(self, title: str, run: Controller | Release, deadline: float) -> None:
        self.title, self.run, self.deadline = title, run, deadline
        self.is_available, self.takes_rows = False, True
        self.seen: Status | None = None
        self._seq, self._losses = -1, Seldom(MEASURE_SHARE)
        self._document, self._lock = Seldom(DOCUMENT_SHARE), asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def start(
        self, metrics: ServiceMetrics, noticed: Callable[[Served, Status | None, bool], None]
    ) -> None:
        """Look at the store once, and go on to follow it."""
        self.metrics, self._noticed = metrics, noticed
        await self.look()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """End what follows the store, and close it."""
        if self._task is not None:
            self._task.cancel()
        await asyncio.to_thread(self.run.close)

    @property
    def is_serving(self) -> bool:
        """Whether the store could be read a moment ago, and took the last rows."""
        return self.is_available and self.takes_rows

    @property
    def status(self) -> Status | None:
        """What holds, as of a moment ago; None if the store has never answered."""
        if self.seen is None:
            return None
        found = msgspec.structs.replace(self.seen, more=self.told())
        return found if self.is_serving else found.without_store()

    def told(self) -> dict[str, Any]:
        """What only its kind tells in its status."""
        return {}

    async def look(self) -> None:
        """Begin what is due, and see what holds now."""
        now = None
        try:
            now = await self._submit(self._read)
        except StoreError as error:
            if self.is_available or self.seen is None:
                log.error("the store of %s is unavailable: %s", self.title, error)
        except Exception:  # it must go on
            log.exception("looking at the store of %s failed", self.title)
        before, was = self.seen, self.is_available  # other looks may have ended meanwhile
        self.seen, self.is_available = now or before, now is not None
        if self.is_available and not was:
            log.info("the store of %s is available", self.title)
        self._noticed(self, before, was)

    async def _submit(self, job: Callable[[Transaction], Result]) -> Result:
        return await asyncio.to_thread(self.run.submit, job, self.deadline)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            await self.look()

    def _read(self, t: Transaction) -> Status:
        """What holds, inside a transaction."""
        self._seq = t.state.seq
        losses = self._losses.make(self._seq, lambda: measure(t.state))
        return read_status(self.title, t.state, losses)

    # ---- endpoints ------------------------------------------------------------------------------

    @endpoint("GET", "/v1/status", "read")
    async def read_status(self, request: Request) -> Status:
        """What holds now, as of a moment ago."""
        if (found := self.status) is None:
            raise ApiError(503, "the store has not answered yet")
        return found

    @endpoint("POST", "/v1/halt", "operate")
    async def halt(self, request: Request, body: Why) -> dict[str, bool]:
        """Let the old system or safe policy answer everything, in every process."""
        await self._act(request, "halt", lambda who: self.run.halt(body.reason, actor=who))
        return {"halted": True}

    @endpoint("POST", "/v1/resume", "operate")
    async def resume(self, request: Request, body: Why) -> dict[str, bool]:
        """Clear the alarms that stand; the ramp begins anew."""
        await self._act(request, "resume", lambda who: self.run.resume(body.reason, actor=who))
        return {"halted": False}

    @endpoint("POST", "/v1/advance", "operate")
    async def advance(self, request: Request, body: AdvanceRequest) -> dict[str, float]:
        """End the present step, which the request names."""

        def job(t: Transaction) -> dict[str, float]:
            number = len(t.state.units)
            if number == body.step:
                self.run.next_step(t)
            elif number != body.step + 1:
                raise ValueError(f"step must be the present one, {number}, got {body.step}")
            return {"step": len(t.state.units), "share": t.state.share}

        return await self._act(request, "advance", lambda who: self.run.submit(job))

    async def _act(self, request: Request, act: str, call: Callable[[str], Result]) -> Result:
        """Do what a person asks for, log it, and see what holds then."""
        actor = request.scope["tether.name"]
        with refusals(409):
            done = await asyncio.to_thread(call, actor)
        log.info("%s did %s %s", actor, act, self.title)
        await self.look()
        return done

    @endpoint("GET", "/", None, media="text/html")
    async def page(self, request: Request) -> Response:
        """The live page, which has no data."""
        return HTMLResponse(page_html())

    @endpoint("GET", "/v1/document", "read")
    async def read_document(self, request: Request, query: PageQuery) -> dict[str, Any]:
        """What the page shows; it asks again and again, and gets a document that has changed."""
        seen, scope, shown = query.seen, request.scope, self._document
        if self.is_available:
            async with self._lock:
                with refusals(None):
                    await asyncio.to_thread(shown.make, self._seq, self._make_document)
        live = {
            "you": {"name": scope["tether.name"], "roles": sorted(scope["tether.roles"])},
            "outage": None if self.is_serving else OUTAGE,
            "more": self.told(),
        }
        return {
            "as_of": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "seq": max(seen, shown.seq),
            "document": shown.made if shown.seq > seen else None,
            "live": live,
        }

    def _make_document(self) -> dict[str, Any]:
        return document(self.run.history(), title=self.title, last=UNITS_SHOWN)


@contextmanager
def refusals(invalid: int | None = 400) -> Iterator[None]:
    """What a client is told whose call the store has not taken, or that is `invalid`."""
    try:
        yield
    except StoreError as error:
        log.error("a call failed: %s", error)
        raise ApiError(503, "the store is unavailable: repeat the request") from error
    except FinalLossError as error:
        raise ApiError(409, str(error)) from None
    except (ValueError, TypeError, OverflowError) as error:
        if invalid is None:
            raise
        raise ApiError(invalid, str(error)) from None


def loss_columns(given: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """The losses of outcomes by name, NaN where there is none."""
    names = dict.fromkeys(name for each in given for name in each)
    return {name: [each.get(name, math.nan) for each in given] for name in names}
