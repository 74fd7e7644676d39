"""The HTTP client of a completions server: concurrent requests, retries and timeouts."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any

import httpx2

from tether._core import validate
from tether.llm.server.api_keys import check_key, hide_key
from tether.llm.server.daemon_calls import POLL_INTERVAL, Call, call_all, is_ending

RETRIED_STATUSES = frozenset({408, 425, 429, *range(500, 600)}) - {501, 505}
"""Statuses after which the same request may succeed: it came too early, or the server failed.

What a server does not implement (501, 505) it will not implement a second later.
"""
INVALID_REQUEST_STATUSES = frozenset({400, 413, 422})
"""Refusals of the request itself, such as a prompt too long; others are of the sender."""
MAX_RETRY_WAIT = 30.0
"""The largest number of seconds between two attempts, whatever the server asks for."""
MAX_RESPONSE_BYTES = 64_000_000
"""The longest response that is read."""
MAX_SHOWN_CHARACTERS = 500
"""How much of a server's error message is shown."""


class ServerError(RuntimeError):
    """The server is unavailable or refused the sender, after all retries.

    A refusal of the request itself (status 400, 413 or 422) is a `ValueError` instead.

    Examples
    --------
    >>> from tether.llm import ServerError
    >>> issubclass(ServerError, RuntimeError)
    True
    """


class HTTPClient:
    """Posts JSON, several requests at a time; a request that fails is sent again unchanged.

    A request carries its own seed, so a retry cannot return another draw. The key is sent with
    each request, and is shown in no message and no representation.
    """

    def __init__(
        self, base_url: str, api_key: str | None, timeout: float, retries: int, concurrency: int
    ) -> None:
        self.base_url = _check_url(base_url)
        self.retries, self.concurrency = retries, concurrency
        self.first_retry_wait = 0.5
        self._key = check_key(api_key)
        self._timeout = validate.number("timeout", timeout, above=0, below=float("inf"))
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=self._timeout,
            limits=httpx2.Limits(max_connections=concurrency),
        )
        weakref.finalize(self, self._client.close)

    def post_all(self, path: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The responses to several requests, in order; the first that fails for good raises.

        Then, or when the caller is interrupted or `ending` is over, nothing more is sent, and
        requests that are under way are not waited for.
        """
        abandoned, longest = Event(), (self.retries + 1) * (3 * self._timeout + MAX_RETRY_WAIT)
        calls = [lambda body=body: self._post(path, body, abandoned) for body in bodies]
        try:
            pending = call_all(calls, self.concurrency, abandoned)
            return [self._wait_for(path, each, longest) for each in pending]
        finally:
            abandoned.set()

    def _wait_for(self, path: str, call: Call[dict[str, Any]], longest: float) -> dict[str, Any]:
        """What a call returns; an error if it takes longer than all its limits together."""
        while not call.wait(POLL_INTERVAL):
            if is_ending():
                raise ServerError(self._message(path, "was not waited for: the program ends"))
            if call.seconds > longest:
                raise ServerError(self._message(path, f"did not end within {longest:g} seconds"))
        return call.future.result()

    def __repr__(self) -> str:
        return f"HTTPClient({self.base_url!r})"

    def _post(self, path: str, body: dict[str, Any], abandoned: Event) -> dict[str, Any]:
        """The response to one request, with retries until the caller has abandoned it."""
        failure, default_wait = "", self.first_retry_wait
        requested_wait: float | None = None
        for attempt in range(self.retries + 1):
            if attempt:
                wait = default_wait if requested_wait is None else requested_wait
                if abandoned.wait(min(wait, MAX_RETRY_WAIT)):
                    break
                default_wait, requested_wait = 2 * default_wait, None
            try:
                response, read = self._send(path, body)
            except httpx2.RequestError as error:
                failure = f"{type(error).__name__}: {error}"
                continue
            if response.status_code == 200:
                try:
                    content = json.loads(read)
                except (ValueError, RecursionError) as error:
                    failure = f"a response that is not JSON ({error})"
                    continue
                if isinstance(content, dict):
                    return content
                raise ServerError(
                    self._message(path, f"returned {type(content).__name__}, not an object")
                )
            failure = f"status {response.status_code}: {self._error_of(read)}"
            if response.status_code not in RETRIED_STATUSES:
                invalid = response.status_code in INVALID_REQUEST_STATUSES
                error_class = ValueError if invalid else ServerError
                raise error_class(self._message(path, f"refused the request with {failure}"))
            requested_wait = parse_retry_after(
                response.headers.get("Retry-After"), datetime.now(UTC)
            )
        raise ServerError(
            self._message(path, f"failed {self.retries + 1} time(s), at last with {failure}")
        )

    def _send(self, path: str, body: dict[str, Any]) -> tuple[httpx2.Response, bytes]:
        """A response and its content, all of it in time: the client's limit is for each part."""
        end, content = time.monotonic() + self._timeout, bytearray()
        with self._client.stream("POST", f"{self.base_url}/{path}", json=body) as response:
            for part in response.iter_bytes():
                content += part
                if time.monotonic() > end:
                    raise httpx2.ReadTimeout(f"no whole response within {self._timeout:g} seconds")
                if len(content) > MAX_RESPONSE_BYTES:
                    raise httpx2.ReadError(f"more than {MAX_RESPONSE_BYTES:,} bytes")
        return response, bytes(content)

    def _message(self, path: str, text: str) -> str:
        return hide_key(f"{self.base_url}/{path} {text}", self._key)

    def _error_of(self, read: bytes) -> str:
        """The server's error message, in OpenAI's format where it has that, without the key.

        Truncated only after the key is hidden: a truncated key would not be recognized.
        """
        try:
            content = json.loads(read)
            content = content.get("error", content)
            text = str(content.get("message", content))
        except (ValueError, RecursionError, AttributeError):
            text = read.decode(errors="replace")
        return hide_key(text, self._key)[:MAX_SHOWN_CHARACTERS]


def parse_retry_after(header: str | None, now: datetime) -> float | None:
    """The seconds that a Retry-After header asks for, as digits or as a date; otherwise None.

    A date in the past asks for no wait.
    """
    if not header:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None


def _check_url(base_url: Any) -> str:
    """The address before the path; parts that may hold a secret are refused and not shown."""
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a string, got {type(base_url).__name__}")
    expected = "base_url must be an address such as 'http://localhost:8000/v1'"
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        raise ValueError(f"{expected}, got an invalid one (it is not shown)") from None
    if url.userinfo:
        raise ValueError("base_url must contain no user name or password: pass api_key instead")
    if "?" in base_url or "#" in base_url:
        raise ValueError(f"{expected}, without a query or a fragment (they are not shown)")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{expected}, got the scheme {url.scheme!r} and the host {url.host!r}")
    return str(url).rstrip("/")
