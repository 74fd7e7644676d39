"""Server-sent events: an answer that goes on, with each change of the document as an event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tether.service.dashboard.live_document import LiveDocument

ALIVE_SECONDS = 10.0
"""After so long without a change a comment is sent, so that a lost connection is noticed."""
SLOW_SECONDS = 10.0
"""Who does not take an event within this time is dropped."""
ALLOWED_SECONDS = 1.0
"""How often it is checked, where nothing changes, that a viewer may still watch."""

log = logging.getLogger("tether.service")


class EventStream(Response):
    """The changes of a document, the whole of it first; `more` are parts for this viewer alone.

    It ends when the viewer `may_go_on` no longer; who connects again is then refused.
    """

    media_type = "text/event-stream"

    def __init__(
        self, live: LiveDocument, may_go_on: Callable[[], bool] = lambda: True, **more: Any
    ) -> None:
        super().__init__()
        self._live, self._may_go_on, self._more = live, may_go_on, more
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"  # a proxy must not wait for the end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the viewer leaves or the service ends."""
        with self._live.viewing():
            left = asyncio.create_task(_left(receive))
            try:
                await self._send_all(send, left)
            except TimeoutError:  # the answer stays incomplete, so the server closes the connection
                log.info("a slow viewer of the dashboard was dropped")
            finally:
                left.cancel()

    async def _send_all(self, send: Send, left: asyncio.Task[None]) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await asyncio.wait_for(send(start), SLOW_SECONDS)
        version, more, loop = 0, self._more, asyncio.get_running_loop()
        sent_at = loop.time()
        change = asyncio.create_task(self._live.after(version))
        try:
            while not left.done():
                await asyncio.wait(
                    {change, left},
                    timeout=min(ALIVE_SECONDS, ALLOWED_SECONDS),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not self._may_go_on():
                    break
                if not change.done() and loop.time() - sent_at < ALIVE_SECONDS:
                    continue
                text, sent_at = ":\n\n", loop.time()
                if change.done():
                    snapshot = change.result()
                    if snapshot is None:
                        break
                    text = f"data:{snapshot.to_json(version, **more)}\n\n"
                    version, more = snapshot.version, {}
                    change = asyncio.create_task(self._live.after(version))
                if not left.done():
                    await asyncio.wait_for(send(_body(text, more_body=True)), SLOW_SECONDS)
            await asyncio.wait_for(send(_body("", more_body=False)), SLOW_SECONDS)
        finally:
            change.cancel()


def _body(text: str, *, more_body: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": text.encode(), "more_body": more_body}


async def _left(receive: Receive) -> None:
    """Wait until the viewer has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
