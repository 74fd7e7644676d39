"""The webhooks of a service: what is noticed about the release goes to each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tether.service.operating.release_events import ReleaseEvents
from tether.service.operating.webhook_sender import FIRST_WAIT, LAST_SECONDS, WebhookSender
from tether.service.served import ServedState
from tether.service.settings.webhook_tables import Webhook


class Webhooks:
    """Sends events to all webhooks, each in a thread of its own; requests never wait for them."""

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        flag: str,
        count: Callable[[int, str], None],
        *,
        first_wait: float = FIRST_WAIT,
    ) -> None:
        self._events = ReleaseEvents(flag)
        self._senders = [
            WebhookSender(webhook, place, count, first_wait=first_wait)
            for place, webhook in enumerate(webhooks, start=1)
        ]

    def start(self) -> None:
        """Begin to send."""
        for sender in self._senders:
            sender.start()

    def noticed(self, state: ServedState | None) -> None:
        """Take what holds now; None if the store is silent."""
        for event in self._events.noticed(state):
            for sender in self._senders:
                sender.put(event)

    def stop(self) -> None:
        """End all threads, at the same time."""
        for sender in self._senders:
            sender.end()
        until = time.monotonic() + LAST_SECONDS
        for sender in self._senders:
            sender.wait(until)
