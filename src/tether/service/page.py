"""The live page of a release or run: the page of `tether.view`, and the events that it shows.

A document takes as long as the run has rows, so all viewers share the last one, and at most a small
part of the time goes into them; nobody watches, nothing is computed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from tether.service.api import ApiError, Endpoint, encode
from tether.service.keys import KeyFile
from tether.service.served import Served
from tether.view import PAGE_HEADERS, document, page_html

DOCUMENT_SECONDS, DOCUMENT_SHARE = 1.0, 0.05
"""The least time between two documents, and the part of the time that they may take."""
ALIVE_SECONDS = 10.0
"""After so long without a change a comment is sent, so that a lost connection is noticed."""
SLOW_SECONDS = 10.0
"""Who does not take an event within this time is dropped."""
UNITS_SHOWN = 200
"""How many steps or rounds the page shows."""
HEADERS = {**PAGE_HEADERS, "Content-Security-Policy": "frame-ancestors 'none'"}
"""The page itself says what it may load."""

log = logging.getLogger("tether.service")


class Page:
    """The page of one release or run; `offers()` are acts that only its kind has."""

    def __init__(
        self,
        served: Served,
        keys: KeyFile | None,
        offers: Callable[[], list[dict[str, Any]]] = list,
    ) -> None:
        self._served, self.keys, self._offers = served, keys, offers
        self._document: dict[str, Any] | None = None
        self._version, self._seq, self._next_at = 0, -1, 0.0
        self._lock, self.ended = asyncio.Lock(), asyncio.Event()
        self._rate = (time.monotonic(), 0)

    def endpoints(self) -> list[Endpoint]:
        """What is answered here."""
        events = "The same as server-sent events, whenever something has changed."
        return [
            Endpoint("GET", "/", None, self.page, "The live page.", media="text/html"),
            Endpoint(
                "GET", "/v1/document", "read", self.read, "What the page shows.", statuses=(503,)
            ),
            Endpoint(
                "GET", "/v1/events", "read", self.events, events, statuses=(503,),
                media="text/event-stream",
            ),
        ]  # fmt: skip

    async def page(self, request: Request, body: None) -> Response:
        """Show the page, which has no data."""
        return HTMLResponse(page_html(), headers=HEADERS)

    async def read(self, request: Request, body: None) -> dict[str, Any]:
        """Say everything that the page shows."""
        found, _ = await self.document()
        return {"as_of": _now(), "document": found, "live": self.live(request)}

    async def events(self, request: Request, body: None) -> Response:
        """Say it again when something has changed."""
        return EventStream(self, request)

    async def document(self) -> tuple[dict[str, Any], int]:
        """The document and its version, not older than a moment."""
        async with self._lock:
            served, now = self._served, time.monotonic()
            seq = -1 if served.present is None else served.present.seq
            if self._document is None or (seq != self._seq and now >= self._next_at):
                run = served.run
                self._document = await served.call(
                    lambda: document(run.history(), title=served.title, last=UNITS_SHOWN)
                )
                self._version, self._seq = self._version + 1, seq
                spent = time.monotonic() - now
                self._next_at = now + max(DOCUMENT_SECONDS, spent / DOCUMENT_SHARE)
            return self._document, self._version

    def live(self, request: Request) -> dict[str, Any]:
        """What the process says about itself, and about who asks."""
        served, (then, count), now = self._served, self._rate, time.monotonic()
        rate = None
        if now - then > 1:
            rate = float(f"{(served.answered - count) / (now - then):.2g}")
            if now - then > 5:
                self._rate = now, served.answered
        outage = "" if served.is_serving else "The store is unavailable: no promise applies."
        name, roles = request.scope["tether.name"], sorted(request.scope["tether.roles"])
        return {
            "you": {"name": name, "roles": roles},
            "outage": outage or None,
            "decisions_per_second": rate,
            "tables": [],
            "offers": self._offers(),
        }

    def end(self) -> None:
        """End all streams: the service ends."""
        self.ended.set()


class EventStream(Response):
    """The document as events, until the viewer leaves, may not go on, or the service ends."""

    media_type = "text/event-stream"

    def __init__(self, page: Page, request: Request) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})  # a proxy must not wait for the end
        del self.headers["content-length"]
        self._page, self._request = page, request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until the end."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        leaving = asyncio.create_task(_until_left(receive))
        try:
            await self._send_all(send, leaving)
            await self._give(send, b"", more=False)
        except TimeoutError:  # the answer stays incomplete, so the server closes the connection
            log.info("a slow viewer of the page was dropped")
        finally:
            leaving.cancel()

    async def _send_all(self, send: Send, leaving: asyncio.Task[None]) -> None:
        page, version, live, sent_at = self._page, 0, None, time.monotonic()
        while not leaving.done() and not page.ended.is_set() and self._may_go_on():
            event: dict[str, Any] = {}
            try:
                found, now = await page.document()
                if now != version:
                    event["document"], version = found, now
            except ApiError:  # the store is away: `live` says so
                pass
            told = page.live(self._request)
            if told != live:
                event["live"], live = told, told
            if event:
                text = b"data:" + encode({"as_of": _now(), **event}) + b"\n\n"
                await self._give(send, text)
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at > ALIVE_SECONDS:
                await self._give(send, b":\n\n")
                sent_at = time.monotonic()
            await self._next(leaving)

    async def _next(self, leaving: asyncio.Task[None]) -> None:
        """Wait a moment, or for the end."""
        ended = asyncio.ensure_future(self._page.ended.wait())
        await asyncio.wait(
            {leaving, ended}, timeout=DOCUMENT_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        ended.cancel()

    def _may_go_on(self) -> bool:
        """Whether the viewer's key is still accepted: it may be revoked, or lose its roles."""
        keys, key = self._page.keys, self._request.scope.get("tether.key")
        return keys is None or key in keys.keys

    async def _give(self, send: Send, text: bytes, *, more: bool = True) -> None:
        message = {"type": "http.response.body", "body": text, "more_body": more}
        await asyncio.wait_for(send(message), SLOW_SECONDS)


def index_page(served: list[Served]) -> str:
    """Links to the pages of several releases."""
    links = "".join(
        f'<li><a href="{escape(each.prefix.removeprefix("/"))}/">{escape(each.title)}</a></li>'
        for each in served
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>tether</title>'
        f"<h1>Releases</h1><ul>{links}</ul></html>"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
