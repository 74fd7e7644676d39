"""Events, such as alarms and steps, sent to those who want to know: signed, and in order.

Every service of a release sees the same alarms and steps and gives their events the same ids, so
that who receives them from several services can tell which ones are the same.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import httpx2
import msgspec
import stamina
from msgspec import Struct

from tether._version import __version__
from tether.service.api import encode
from tether.service.served import Served
from tether.service.settings import Webhook
from tether.service.status import ServiceMetrics, Status

FIRST_WAIT, LONGEST_WAIT, GIVE_UP_SECONDS = 1.0, 300.0, 86_400.0
"""How many seconds pass before an event is sent again, at most, and until it is given up."""
LAST_SECONDS = 5.0
"""How long the end of a service waits for what is being sent."""
TRY_AGAIN = (408, 425, 429)
"""The refusals that are for now."""

log = logging.getLogger("tether.service")


class Event(Struct):
    """Something that has happened; `details` has the alarm, the step, or the state of the store."""

    id: str
    event: str
    time: str
    text: str
    share: float | None
    details: dict[str, Any]


def events_of(served: Served, before: Status | None, was_available: bool) -> Iterator[Event]:
    """The events since the look before, which saw the store so; None if it never answered.

    An alarm that stands when the service starts is an event, since nobody may have been told; the
    step that it finds is not.
    """
    now = served.seen if served.is_available else None

    def event(kind: str, name: object, text: str, details: dict[str, Any]) -> Event:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        identity, share = f"{served.title}/{kind}/{name}", None if now is None else now.share
        return Event(identity, kind, moment, f"{served.title}: {text}", share, details)

    if before is not None and served.is_available != was_available:
        text = f"the store is {'available again' if now else 'unavailable'}"
        yield event("store", uuid.uuid4(), text, {"available": served.is_available})
    if now is None:
        return
    step, alarm, cleared = now.step, now.alarm, None if before is None else before.alarm
    if alarm != cleared and cleared is not None:
        text = f"the alarm is cleared; {now.state}"
        yield event("resume", cleared.number, text, {"alarm": cleared.number})
    if alarm != cleared and alarm is not None:
        kind = "halt" if alarm.monitor == "halt" else "alarm"
        text = f"{kind} {alarm.number}: {alarm.message}"
        yield event(kind, alarm.number, text, msgspec.structs.asdict(alarm))
    if before is not None and before.step.number != step.number:
        text = f"{served.unit} {step.number} has begun; {now.state}"
        yield event(served.unit, step.number, text, msgspec.structs.asdict(step))


class DeliveryError(Exception):
    """An event was not taken, for now. The message has no URL, which may be a secret."""


class Webhooks:
    """Sends what is noticed to all webhooks; requests never wait for them.

    Each webhook gets its events one after the other, and each again until it is taken.
    """

    def __init__(self, webhooks: Sequence[Webhook], metrics: ServiceMetrics) -> None:
        self._webhooks = {str(place): each for place, each in enumerate(webhooks, start=1)}
        self._turns = {place: asyncio.Lock() for place in self._webhooks}  # in order of arrival
        self._metrics, self._tasks = metrics, set[asyncio.Task[None]]()
        self._client = httpx2.AsyncClient(trust_env=False, timeout=None)
        self._ending = False

    def noticed(self, served: Served, before: Status | None, was_available: bool) -> None:
        """Take what holds now, after what held before."""
        for event in events_of(served, before, was_available):
            for place, webhook in self._webhooks.items():
                if event.event in webhook.events:
                    task = asyncio.get_running_loop().create_task(self._deliver(place, event))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Try what waits once more, for a moment, and end."""
        self._ending = True
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=LAST_SECONDS)
            for task in late:
                task.cancel()
        await self._client.aclose()

    async def _deliver(self, place: str, event: Event) -> None:
        again = stamina.AsyncRetryingCaller(
            attempts=None, timeout=GIVE_UP_SECONDS, wait_initial=FIRST_WAIT, wait_max=LONGEST_WAIT
        ).on(lambda error: isinstance(error, DeliveryError) and not self._ending)
        async with self._turns[place]:
            try:
                await again(self._send, place, event)
            except Exception as error:
                self._metrics.of("webhook_attempts", place, "given_up").inc()
                problem = str(error) or type(error).__name__
                log.error("webhook %s does not get the event %s: %s", place, event.id, problem)

    async def _send(self, place: str, event: Event) -> None:
        webhook, now = self._webhooks[place], int(time.time())
        body = encode(event if webhook.format == "json" else {"text": event.text})
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"tether/{__version__}",
            "Tether-Event-Id": event.id,  # the same when it is sent again
            "Tether-Timestamp": str(now),
        }
        if webhook.secret is not None:
            signed = hmac.new(webhook.secret.encode(), b"%d." % now + body, sha256)
            headers["Tether-Signature"] = f"v1={signed.hexdigest()}"
        try:
            async with asyncio.timeout(webhook.deadline):
                found = await self._client.post(webhook.url, content=body, headers=headers)
            status, problem = found.status_code, f"status {found.status_code}"
        except (httpx2.HTTPError, OSError) as error:  # the message may have the URL
            status, problem = 503, type(error).__name__
        is_taken = 200 <= status < 300
        self._metrics.of("webhook_attempts", place, "delivered" if is_taken else "failed").inc()
        if not is_taken:
            is_for_now = status >= 500 or status in TRY_AGAIN
            raise DeliveryError(problem) if is_for_now else ValueError(problem)
