"""Events, such as alarms and steps, sent to those who want to know: signed, and in order.

Every service of a release sees the same alarms and steps and gives their events the same ids, so
that who receives them from several services can tell which ones are the same. Of the workers of one
service one sends them.
"""

from __future__ import annotations

import asyncio
import fcntl
import hmac
import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import stamina
from msgspec import Struct

from tether._version import __version__
from tether.service.api import encode
from tether.service.metrics import METRICS_FOLDER, ServiceMetrics
from tether.service.served import Served
from tether.service.settings import Webhook
from tether.service.status import Status

MOST_WAITING = 1_000
"""How many events wait for a receiver; more are given up."""
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


class Events:
    """Turns what holds, one look after the other, into events.

    An alarm that stands when the service starts is an event, since nobody may have been told; the
    step that it finds is not.
    """

    def __init__(self, served: Served) -> None:
        self._title, self._unit = served.title, served.unit
        self._before: Status | None = None
        self._was_available: bool | None = None

    def noticed(self, now: Status | None) -> Iterator[Event]:
        """The events that lead to what holds now; None if the store is silent."""
        available, was, last = now is not None, self._was_available, self._before
        if available or was is not None:  # not if it never was
            self._was_available = available
        if was not in (None, available):
            text = f"the store is {'available again' if available else 'unavailable'}"
            yield self._event("store", uuid.uuid4(), text, now, {"available": available})
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
        share = None if now is None else now.share
        identity = f"{self._title}/{kind}/{name}"
        return Event(identity, kind, moment, f"{self._title}: {text}", share, details)


class DeliveryError(Exception):
    """An event was not taken, for now. The message has no URL, which may be a secret."""


class Sender:
    """Sends events to one webhook, one after the other, and each again until it is taken."""

    def __init__(self, webhook: Webhook, place: int, metrics: ServiceMetrics) -> None:
        self._webhook, self._place, self._metrics = webhook, str(place), metrics
        self._waiting: asyncio.Queue[Event | None] = asyncio.Queue()
        self._client = httpx2.AsyncClient(trust_env=False, timeout=webhook.deadline)
        self._task: asyncio.Task[None] | None = None
        self._ending = False

    def put(self, event: Event) -> None:
        """Send an event when those before it are sent; it returns at once."""
        if event.event not in self._webhook.events:
            return
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        if self._waiting.qsize() < MOST_WAITING:
            self._waiting.put_nowait(event)
        else:
            self._give_up(event, "too many events wait")

    async def close(self) -> None:
        """Try what waits once more, for a moment, and end."""
        self._ending = True
        self._waiting.put_nowait(None)
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=LAST_SECONDS)
            self._task.cancel()
            await asyncio.wait((self._task,))
        await self._client.aclose()

    async def _run(self) -> None:
        again = stamina.AsyncRetryingCaller(
            attempts=None, timeout=GIVE_UP_SECONDS, wait_initial=FIRST_WAIT, wait_max=LONGEST_WAIT
        ).on(lambda error: isinstance(error, DeliveryError) and not self._ending)
        while (event := await self._waiting.get()) is not None:
            try:
                await again(self._attempt, event)
            except Exception as error:  # it must go on
                self._give_up(event, str(error) or type(error).__name__)

    async def _attempt(self, event: Event) -> None:
        now = int(time.time())
        body = encode(event if self._webhook.format == "json" else {"text": event.text})
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"tether/{__version__}",
            "Tether-Event-Id": event.id,  # the same when it is sent again
            "Tether-Timestamp": str(now),
        }
        if self._webhook.secret is not None:
            signed = hmac.new(self._webhook.secret.encode(), b"%d." % now + body, sha256)
            headers["Tether-Signature"] = f"v1={signed.hexdigest()}"
        try:
            async with asyncio.timeout(self._webhook.deadline):
                found = await self._client.post(self._webhook.url, content=body, headers=headers)
            status, problem = found.status_code, f"status {found.status_code}"
        except (httpx2.HTTPError, OSError) as error:  # the message may have the URL
            status, problem = 503, type(error).__name__
        is_taken = 200 <= status < 300
        result = "delivered" if is_taken else "failed"
        self._metrics.count("webhook_attempts", self._place, result)
        if not is_taken:
            is_for_now = status >= 500 or status in TRY_AGAIN
            raise DeliveryError(problem) if is_for_now else ValueError(problem)

    def _give_up(self, event: Event, problem: str) -> None:
        self._metrics.count("webhook_attempts", self._place, "given_up")
        fields = {"webhook": self._place, "id": event.id, "problem": problem}
        log.error("an event is given up", extra={"fields": fields})


class Webhooks:
    """Sends what is noticed to all webhooks; requests never wait for them."""

    def __init__(self, webhooks: Sequence[Webhook], metrics: ServiceMetrics) -> None:
        places = enumerate(webhooks, start=1)
        self._senders = [Sender(each, place, metrics) for place, each in places]
        self._events: dict[str, Events] = {}
        self._lock: int | None = None

    def noticed(self, served: Served) -> None:
        """Take what holds now."""
        if not self._senders:
            return
        seen = served.seen if served.is_available else None
        events = self._events.setdefault(served.title, Events(served))
        for event in list(events.noticed(seen)):
            if self._is_mine():
                for sender in self._senders:
                    sender.put(event)

    async def close(self) -> None:
        """End all senders, at the same time."""
        await asyncio.gather(*(sender.close() for sender in self._senders))
        if self._lock is not None:
            os.close(self._lock)

    def _is_mine(self) -> bool:
        """Whether this worker sends: the one that holds a lock, which ends with its process."""
        folder = os.environ.get(METRICS_FOLDER)
        if folder is None or self._lock is not None:
            return True
        lock = os.open(Path(folder, "webhooks.lock"), os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True
