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
from tether.service.metrics import ServiceMetrics
from tether.service.served import Served
from tether.service.settings import Webhook
from tether.service.status import Status

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


class Notices:
    """Turns what holds of a release or run, one look after the other, into events.

    An alarm that stands when the service starts is an event, since nobody may have been told; the
    step that it finds is not.
    """

    def __init__(self, served: Served) -> None:
        self._title, self._unit = served.title, served.unit
        self._before: Status | None = None
        self._is_available = True

    def noticed(self, now: Status | None) -> Iterator[Event]:
        """The events that lead to what holds now; None if the store is silent."""
        available, last = now is not None, self._before
        if available != self._is_available and last is not None:  # not if it never was
            text = f"the store is {'available again' if available else 'unavailable'}"
            yield self._event("store", uuid.uuid4(), text, now, {"available": available})
        self._is_available = available
        if now is None:
            return
        self._before, step = now, now.step
        alarm, before = now.alarm, None if last is None else last.alarm
        if alarm != before and before is not None:
            text = f"the alarm is cleared; {now.state}"
            yield self._event("resume", before.number, text, now, {"alarm": before.number})
        if alarm != before and alarm is not None:
            kind = "halt" if alarm.monitor == "halt" else "alarm"
            details = msgspec.structs.asdict(alarm)
            details[self._unit] = details.pop("unit")
            text = f"{kind} {alarm.number}: {alarm.message}"
            yield self._event(kind, alarm.number, text, now, details)
        if last is not None and last.step.number != step.number:
            details = {"number": step.number, "begun": step.begun, "level": step.level}
            text = f"{self._unit} {step.number} has begun; {now.state}"
            yield self._event(self._unit, step.number, text, now, details)

    def _event(
        self, kind: str, name: object, text: str, now: Status | None, details: dict[str, Any]
    ) -> Event:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        share, identity = None if now is None else now.share, f"{self._title}/{kind}/{name}"
        return Event(identity, kind, moment, f"{self._title}: {text}", share, details)


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
        self._notices: dict[str, Notices] = {}
        self._ending = False

    def noticed(self, served: Served) -> None:
        """Take what holds now."""
        notices = self._notices.setdefault(served.title, Notices(served))
        for event in list(notices.noticed(served.seen if served.is_available else None)):
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
                self._metrics.count("webhook_attempts", place, "given_up")
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
        self._metrics.count("webhook_attempts", place, "delivered" if is_taken else "failed")
        if not is_taken:
            is_for_now = status >= 500 or status in TRY_AGAIN
            raise DeliveryError(problem) if is_for_now else ValueError(problem)
