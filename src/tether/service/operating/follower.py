"""A thread beside the requests: it begins steps that are due, and follows the state of the store.

Requests need neither. Other processes and machines may serve the same store, and what they or
people do is seen here within a moment, and logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Event, Lock, Thread

from tether.rounds.errors import StoreError
from tether.rounds.json_rows import json_number
from tether.service.served import Served, ServedState

FOLLOW_SECONDS = 0.25
"""How often the state is read."""
STOP_SECONDS = 5.0
"""How long the end of a service waits for a step that is being computed."""

log = logging.getLogger("tether.service")


class Follower:
    """Follows what is served; `noticed` is called with every state, or None without the store."""

    def __init__(
        self,
        served: Served,
        noticed: Callable[[ServedState | None], None],
        every: float = FOLLOW_SECONDS,
    ) -> None:
        self._served, self._noticed, self._every = served, noticed, every
        self._end, self._lock = Event(), Lock()
        self._asked: list[Future[None]] = []
        self._thread = Thread(target=self._follow, name="tether-follower", daemon=True)
        self.state: ServedState | None = None
        self.is_available = False

    def start(self) -> None:
        """Read the state once, and go on in a thread."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread, or leave it after a while: what it computes is not needed any more."""
        self._end.set()
        self._served.due.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def refresh(self) -> Future[None]:
        """Let the thread look again soon; done when it has, which a step may delay for long."""
        done: Future[None] = Future()
        with self._lock:
            self._asked.append(done)
        self._served.due.set()
        return done

    def look(self) -> None:
        """Begin what is due, and read the state; one thread at a time."""
        with self._lock:
            asked, self._asked = self._asked, []
        try:
            self._look()
        finally:
            for each in asked:
                if each.set_running_or_notify_cancel():  # whoever asked may have gone
                    each.set_result(None)

    def _look(self) -> None:
        try:
            state = self._served.follow()
        except StoreError as error:
            if self.is_available or self.state is None:
                log.error("the store is unavailable: %s", error)
            self.is_available = False
            self._noticed(None)
            return
        if not self.is_available:
            log.info("the store is available")
        self._log_changes(state)
        self.state, self.is_available = state, True
        self._noticed(state)

    def _follow(self) -> None:
        while not self._end.is_set():
            self._served.due.wait(self._every)
            if not self.is_available:
                self._end.wait(self._every)  # whoever waits for a step says so again and again
            if self._end.is_set():
                return
            try:
                self.look()
            except Exception:  # it must go on
                self.is_available = False
                log.exception("following the store failed")

    def _log_changes(self, state: ServedState) -> None:
        before = self.state
        if before is None:  # it may have begun long ago
            log.info("the present %s", state.unit, extra={"fields": _shown(state.figures)})
        elif before.number != state.number:
            log.info("a %s has begun", state.unit, extra={"fields": _shown(state.figures)})
        alarm_before = None if before is None else before.alarm
        if state.alarm is not None and state.alarm != alarm_before:
            alarm = {"monitor": state.alarm.monitor, "message": state.alarm.message}
            log.warning("an alarm stands", extra={"fields": alarm})
        elif state.alarm is None and alarm_before is not None:
            log.info("the alarm is cleared")


def _shown(figures: Mapping[str, float]) -> dict[str, float | str]:
    """Figures as JSON can have them."""
    return {name: json_number(figure) for name, figure in figures.items()}
