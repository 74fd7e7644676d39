"""What a webhook is sent, and how: one POST with a deadline, signed, without redirects.

The standard library sends it, since other clients log URLs, and a webhook's may be a secret.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from threading import Timer
from urllib.parse import urlsplit

from tether._version import __version__
from tether.service.operating.release_events import ReleaseEvent
from tether.service.settings.webhook_tables import Webhook

SIGNATURE_HEADER, TIMESTAMP_HEADER = "Tether-Signature", "Tether-Timestamp"
"""Where a message has its signature, and the Unix time that is signed with it."""
EVENT_ID_HEADER = "Tether-Event-Id"
"""Where a message has the id of its event, which is the same when it is sent again."""


def make_message(webhook: Webhook, event: ReleaseEvent, now: int) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of a message."""
    content = event.to_dict() if webhook.format == "json" else {"text": event.text}
    body = json.dumps(content).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"tether/{__version__}",
        EVENT_ID_HEADER: event.id,
        TIMESTAMP_HEADER: str(now),
    }
    if webhook.secret is not None:
        headers[SIGNATURE_HEADER] = sign_message(webhook.secret, now, body)
    return body, headers


def sign_message(secret: str, timestamp: int, body: bytes) -> str:
    """The signature: "v1=" and the HMAC-SHA256 of the timestamp, a dot and the body."""
    signed = f"{timestamp}.".encode() + body
    return f"v1={hmac.new(secret.encode(), signed, sha256).hexdigest()}"


def post_message(webhook: Webhook, body: bytes, headers: dict[str, str]) -> int:
    """Send a message, and return the status of the answer; OSError or HTTPException otherwise."""
    parts = urlsplit(webhook.url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = kind(str(parts.hostname), parts.port, timeout=webhook.deadline)
    try:
        connection.connect()
        with _deadline(connection, webhook.deadline):
            connection.request("POST", path, body, headers)
            return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def _deadline(connection: HTTPConnection, seconds: float) -> Iterator[None]:
    """End a connection after so long, also one on which something arrives now and then."""
    opened = connection.sock

    def end() -> None:
        with suppress(OSError):
            opened.shutdown(socket.SHUT_RDWR)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
