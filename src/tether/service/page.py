"""The live page of a release or run: the page of `tether.view`, and the events that it shows.

A document takes as long as the run has rows, so all viewers share the last one, and at most a small
part of the time goes into them; nobody watches, nothing is computed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from tether.service.api import ApiError, encode, endpoint
from tether.service.keys import KeyFile
from tether.service.served import Served
from tether.view import PAGE_HEADERS, document, page_html

DOCUMENT_SECONDS, DOCUMENT_SHARE = 1.0, 0.05
"""The least time between two documents, and the part of the time that they may take."""
ALIVE_SECONDS = 10.0
"""After so long without a change a comment is sent, so that a lost connection is noticed."""
UNITS_SHOWN = 200
"""How many steps or rounds the page shows."""
HEADERS = {**PAGE_HEADERS, "Content-Security-Policy": "frame-ancestors 'none'"}
"""The page itself says what it may load."""


class PageApi:
    """The page of one release or run."""

    def __init__(self, served: Served, keys: KeyFile | None) -> None:
        self._served, self._keys = served, keys
        self._document: dict[str, Any] | None = None
        self._version, self._seq, self._next_at = 0, -1, 0.0
        self._lock, self._ended = asyncio.Lock(), asyncio.Event()

    @endpoint("GET", "/", None, media="text/html")
    async def page(self, request: Request, body: None) -> Response:
        """The live page, which has no data."""
        return HTMLResponse(page_html(), headers=HEADERS)

    @endpoint("GET", "/v1/document", "read", 503)
    async def read(self, request: Request, body: None) -> dict[str, Any]:
        """Everything that the page shows."""
        found, _ = await self.document()
        return {"as_of": _now(), "document": found, "live": self.live(request)}

    @endpoint("GET", "/v1/events", "read", 503, media="text/event-stream")
    async def events(self, request: Request, body: None) -> Response:
        """The same as server-sent events, whenever something has changed."""
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not wait for the end
        return StreamingResponse(self._events(request), 200, headers, "text/event-stream")

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
        served = self._served
        outage = None if served.is_serving else "The store is unavailable: no promise applies."
        name, roles = request.scope["tether.name"], sorted(request.scope["tether.roles"])
        return {
            "you": {"name": name, "roles": roles},
            "outage": outage,
            "offers": served.offers(),
        }

    def end(self) -> None:
        """End all streams: the service ends."""
        self._ended.set()

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        """Events until the service ends, or the viewer's key is not accepted any more."""
        version, live, sent_at = 0, None, time.monotonic()
        keys, key = self._keys, request.scope.get("tether.key")
        while not self._ended.is_set() and (keys is None or key in keys.keys.values()):
            event: dict[str, Any] = {}
            try:
                found, now = await self.document()
                if now != version:
                    event["document"], version = found, now
            except ApiError:  # the store is away: `live` says so
                pass
            told = self.live(request)
            if told != live:
                event["live"] = live = told
            if event or time.monotonic() - sent_at > ALIVE_SECONDS:
                text = b"data:" + encode({"as_of": _now(), **event}) if event else b":"
                yield text + b"\n\n"
                sent_at = time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), DOCUMENT_SECONDS)


class IndexApi:
    """The first page of several releases."""

    def __init__(self, served: list[Served]) -> None:
        self._served = served

    @endpoint("GET", "/", None, media="text/html")
    async def index(self, request: Request, body: None) -> Response:
        """Links to the pages."""
        links = "".join(
            f'<li><a href="{escape(each.prefix.removeprefix("/"))}/">{escape(each.title)}</a></li>'
            for each in self._served
        )
        page = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>tether</title>'
            f"<h1>Releases</h1><ul>{links}</ul></html>"
        )
        return HTMLResponse(page, headers=HEADERS)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
