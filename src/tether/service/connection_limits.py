"""Connections of the web server: no more than allowed, and none that is idle for long.

Without limits, clients that connect and send nothing, or a byte now and then, would take all file
descriptors of the process, and with them the store.
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
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._used()
            self._watch(limits.idle_seconds)
            if len(by_age) > limits.connections:  # the new one is closed if all others are busy
                next(each for each in by_age if each.is_idle).close_now()

        def connection_lost(self, exc: Exception | None) -> None:
            by_age.pop(self, None)
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            if self in by_age:
                self._used()
            super().on_response_complete()

        @property
        def is_idle(self) -> bool:
            """Whether no request is being answered."""
            return self.cycle is None or self.cycle.response_complete

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
            left = self.idle_since + limits.idle_seconds - self.loop.time()
            if self.is_idle and left <= 0:
                self.close_now()
            else:
                self._watch(left if self.is_idle else limits.idle_seconds)

    return LimitedProtocol
