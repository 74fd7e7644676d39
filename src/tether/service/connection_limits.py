"""Connections of the web server: no more than allowed, and none that is idle for long.

Without limits, clients that connect and send nothing, or a byte now and then, would take all file
descriptors of the process, and with them the store. So would clients that ask and do not read the
answers: the next answer waits until they do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tether.service.settings.service_settings import ServiceLimits

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol
else:  # whichever parser is installed
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as HttpProtocol

ACCEPTED_AT_ONCE = 100
"""How many connections may wait to be accepted, which then happens at once."""


def limited_protocol(limits: ServiceLimits) -> type[asyncio.Protocol]:
    """The protocol of uvicorn with limits on connections, for one web server."""
    by_age: dict[LimitedProtocol, None] = {}  # the one that was used last stands last

    class LimitedProtocol(HttpProtocol):
        idle_since = 0.0
        unread_since: float | None = None
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._used()
            self._watch(limits.idle_seconds)
            if len(by_age) > limits.connections:  # the new one is closed if all others are busy
                next(each for each in by_age if each.is_idle or each.is_unread).close_now()

        def connection_lost(self, exc: Exception | None) -> None:
            by_age.pop(self, None)
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            self.unread_since = self.loop.time()
            super().pause_writing()

        def resume_writing(self) -> None:
            self.unread_since = None
            super().resume_writing()

        def on_response_complete(self) -> None:
            if self in by_age:
                self._used()
            super().on_response_complete()

        @property
        def is_idle(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

        @property
        def is_unread(self) -> bool:
            """Whether an answer waits for a client that does not read."""
            return self.unread_since is not None

        def close_now(self) -> None:
            """Close it, also if the client does not read what was sent."""
            by_age.pop(self, None)
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            else:
                self.transport.close()

        def _used(self) -> None:
            self.idle_since = self.loop.time()
            by_age.pop(self, None)
            by_age[self] = None

        def _watch(self, seconds: float) -> None:
            self._timer = self.loop.call_later(seconds, self._close_if_idle)

        def _close_if_idle(self) -> None:
            since = self.idle_since if self.unread_since is None else self.unread_since
            left = since + limits.idle_seconds - self.loop.time()
            may_close = self.is_idle or self.is_unread
            if may_close and left <= 0:
                self.close_now()
            else:
                self._watch(left if may_close else limits.idle_seconds)

    return LimitedProtocol
