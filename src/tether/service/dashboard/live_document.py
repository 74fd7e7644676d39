"""One document for all who watch: it is read while somebody does, and they learn what changed.

However many watch, the store is read about once a second and by one thread. Nothing waits in
queues: who is slow misses what was between. For one event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tether.rounds.errors import StoreError
from tether.service.api_errors import ApiError
from tether.service.dashboard.document import Watched

LOOK_SECONDS = 1.0
"""How often what is served is looked at."""
LATE_SECONDS = 2.0
"""When a look takes so long, who watches is told that what they see is not up to date."""
MAX_VIEWERS = 100
"""How many may watch one process."""

log = logging.getLogger("tether.service")


@dataclass(frozen=True)
class Snapshot:
    """The document at one moment: its parts as JSON, each with the version that changed it."""

    version: int
    as_of: str
    parts: Mapping[str, tuple[int, str]]

    def to_json(self, since: int = 0, **more: Any) -> str:
        """What changed since a version, as one line; all of it since 0."""
        changed = [
            f"{json.dumps(name)}:{text}"
            for name, (version, text) in self.parts.items()
            if version > since
        ]
        changed += (f"{json.dumps(name)}:{_json(each)}" for name, each in more.items())
        return f'{{"as_of":{json.dumps(self.as_of)},"parts":{{{",".join(changed)}}}}}'


class LiveDocument:
    """The present document; `facts` are what the process says about itself."""

    def __init__(
        self,
        watched: Watched,
        facts: Callable[[], Mapping[str, Any]],
        every: float = LOOK_SECONDS,
    ) -> None:
        self._watched, self._facts, self._every = watched, facts, every
        self._thread = ThreadPoolExecutor(1, "tether-dashboard")
        self._task: asyncio.Task[None] | None = None
        self._snapshot: Snapshot | None = None
        self._published = asyncio.Event()
        self._ending, self._is_failing = asyncio.Event(), False
        self._version = self.viewers = 0

    @property
    def _is_ended(self) -> bool:
        return self._ending.is_set()

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Count somebody who watches, which lets the document be read."""
        if self._is_ended:
            raise ApiError(503, "the service is shutting down")
        if self.viewers >= MAX_VIEWERS:
            raise ApiError(503, f"{MAX_VIEWERS} others watch already: try again later")
        self.viewers += 1
        if self._task is None:
            self._snapshot = None  # it is of when somebody last watched
            self._task = asyncio.get_running_loop().create_task(self._follow())
        try:
            yield
        finally:
            self.viewers -= 1

    async def after(self, version: int) -> Snapshot | None:
        """The document as soon as it is later than a version; None at the end of the service."""
        while not self._is_ended:
            if self._snapshot is not None and self._snapshot.version > version:
                return self._snapshot
            await self._published.wait()
        return None

    def end(self) -> None:
        """Let everyone who watches know that the service ends."""
        self._ending.set()
        self._published.set()

    async def close(self) -> None:
        """Wait for the look that is under way."""
        self.end()
        if self._task is not None:
            await self._task
        await asyncio.to_thread(self._thread.shutdown)

    async def _follow(self) -> None:
        """Look, and tell who watches; ends a moment after nobody does."""
        loop = asyncio.get_running_loop()
        try:
            while self.viewers and not self._is_ended:
                next_look = loop.time() + self._every
                look = loop.run_in_executor(self._thread, self._look)
                while not (await asyncio.wait({look}, timeout=LATE_SECONDS))[0]:
                    self._publish({}, is_read=False)  # the store is slow or frozen
                self._publish(look.result(), is_read=not self._is_failing)
                await self._pause(next_look - loop.time())
        finally:
            self._task = None

    async def _pause(self, seconds: float) -> None:
        """Wait for the next look, or for the end of the service."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), max(0.0, seconds))

    def _look(self) -> dict[str, str]:
        """The parts that could be read, as JSON; in a thread."""
        try:
            parts = {name: _json(each) for name, each in self._watched.look().parts().items()}
            if self._is_failing:
                log.info("the dashboard can be read again")
            self._is_failing = False
        except Exception as error:  # it must go on
            parts, is_known = {}, isinstance(error, StoreError)
            if not self._is_failing or not is_known:
                log.error(
                    "the dashboard could not be read: %s",
                    error if is_known else type(error).__name__,
                    exc_info=None if is_known else error,
                )
            self._is_failing = True
        return parts

    def _publish(self, read: Mapping[str, str], *, is_read: bool) -> None:
        """Make a new version if anything has changed; parts that could not be read stay."""
        parts = {**read, "service": _json({**self._facts(), "is_read": is_read})}
        before = {} if self._snapshot is None else dict(self._snapshot.parts)
        changed = [name for name, text in parts.items() if before.get(name, (0, ""))[1] != text]
        if changed:
            self._version += 1
        before |= {name: (self._version, parts[name]) for name in changed}
        as_of = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._snapshot = Snapshot(self._version, as_of, before)
        if changed:
            waiting, self._published = self._published, asyncio.Event()
            waiting.set()


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
