"""Events to one receiver, in order and at least once: a thread that tries again when it fails."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from http.client import HTTPException
from threading import Condition, Thread

from tether.service.operating.release_events import ReleaseEvent
from tether.service.operating.webhook_message import make_message, post_message
from tether.service.settings.webhook_tables import Webhook

MOST_EVENTS_WAITING = 1_000
"""How many events wait for a receiver; beyond them the oldest is given up."""
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0
"""How many seconds pass before an event is sent again: twice as long each time."""
GIVE_UP_SECONDS = 86_400.0
"""After how long an event is given up."""
LAST_SECONDS = 5.0
"""How long the end of a service waits for what is being sent."""
_TRY_AGAIN = (408, 425, 429)

log = logging.getLogger("tether.service")


class WebhookSender:
    """Sends events to a webhook; `count` is told of "delivered", "failed" and "given_up".

    `place` is the number of the webhook in the settings, which logs and metrics call it by.
    """

    def __init__(
        self,
        webhook: Webhook,
        place: int,
        count: Callable[[int, str], None],
        *,
        first_wait: float = FIRST_WAIT,
    ) -> None:
        self._webhook, self._place, self._count = webhook, place, count
        self._first_wait = first_wait
        self._waiting: deque[ReleaseEvent] = deque()
        self._changed, self._is_ending = Condition(), False
        self._thread = Thread(target=self._run, name=f"tether-webhook-{place}", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, event: ReleaseEvent) -> None:
        """Send an event when those before it are sent; it returns at once."""
        if event.event not in self._webhook.events:
            return
        with self._changed:
            if len(self._waiting) >= MOST_EVENTS_WAITING:
                self._give_up(self._waiting.popleft(), "too many events wait")
            self._waiting.append(event)
            self._changed.notify()

    def end(self) -> None:
        """Let the thread try what waits once more, and end; it returns at once."""
        with self._changed:
            self._is_ending = True
            self._changed.notify()

    def stop(self) -> None:
        """End, and wait for it; a receiver that does not answer in time is left."""
        self.end()
        self.wait(time.monotonic() + LAST_SECONDS)

    def wait(self, until: float) -> None:
        """Wait for the end of the thread, until a moment."""
        if self._thread.is_alive():
            self._thread.join(max(0.0, until - time.monotonic()))

    def _run(self) -> None:
        while (event := self._next()) is not None:
            try:
                self._deliver(event)
            except Exception as error:  # it must go on
                self._give_up(event, type(error).__name__)

    def _next(self) -> ReleaseEvent | None:
        """The event that waits longest; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_ending)
            return self._waiting.popleft() if self._waiting else None

    def _deliver(self, event: ReleaseEvent) -> None:
        begun, wait = time.monotonic(), self._first_wait
        while True:
            problem, may_repeat = self._attempt(event)
            if problem is None:
                self._count(self._place, "delivered")
                return
            self._count(self._place, "failed")
            if not may_repeat or time.monotonic() - begun > GIVE_UP_SECONDS:
                self._give_up(event, problem)
                return
            self._log(logging.WARNING, "an event was not delivered", event, problem)
            with self._changed:
                if self._changed.wait_for(lambda: self._is_ending, wait):
                    self._waiting.clear()  # they would fail as well
                    return
            wait = min(2 * wait, LONGEST_WAIT)

    def _attempt(self, event: ReleaseEvent) -> tuple[str | None, bool]:
        """What went wrong, if anything, and whether to try again."""
        body, headers = make_message(self._webhook, event, int(time.time()))
        try:
            status = post_message(self._webhook, body, headers)
        except (OSError, HTTPException) as error:  # the message may have the URL
            return type(error).__name__, True
        is_refused = 300 <= status < 500 and status not in _TRY_AGAIN
        return (None, False) if 200 <= status < 300 else (f"status {status}", not is_refused)

    def _give_up(self, event: ReleaseEvent, problem: str) -> None:
        self._count(self._place, "given_up")
        self._log(logging.ERROR, "an event is given up", event, problem)

    def _log(self, level: int, text: str, event: ReleaseEvent, problem: str) -> None:
        fields = {"webhook": self._place, "id": event.id, "problem": problem}
        log.log(level, text, extra={"fields": fields})
