"""A server that is asked over HTTP: retries, timeouts, so many requests at a time."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent import futures
from datetime import UTC, datetime
from threading import Event
from typing import Any

import httpx2

from tether._core import validate
from tether.llm.server import api_keys, retry_rules

GLANCE = 1.0
"""Seconds after which a caller that waits looks up: an interrupt may have come unseen."""
LONGEST_MESSAGE = 500
"""How many characters of what a server says are told."""


class ServerError(RuntimeError):
    """The server did not answer, or refused, however often it was asked."""


class Server:
    """Asks in JSON, several requests at a time; one that fails is sent again, the very same.

    A request carries its own seed, so that sending it again is no second chance for another
    answer. The key is sent with each request, and stands in no message and no representation.
    """

    def __init__(
        self, base_url: str, api_key: str | None, timeout: float, retries: int, concurrency: int
    ) -> None:
        self.base_url = _address(base_url)
        self.retries, self.concurrency = retries, concurrency
        self.first_wait = 0.5
        self._key = api_keys.checked(api_key)
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=validate.number("timeout", timeout, above=0, below=float("inf")),
            limits=httpx2.Limits(max_connections=concurrency),
        )
        weakref.finalize(self, self._client.close)

    def ask(self, path: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to several requests, in their order; the first that fails for good raises.

        Then, or when the caller is interrupted, nothing is sent any more, and what is under way is
        not waited for.
        """
        pool, abandoned = futures.ThreadPoolExecutor(max_workers=self.concurrency), Event()
        try:
            waiting = [pool.submit(self._ask_once, path, body, abandoned) for body in bodies]
            return [_awaited(each) for each in waiting]
        finally:
            abandoned.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        return f"Server({self.base_url!r})"

    def _ask_once(self, path: str, body: dict[str, Any], abandoned: Event) -> dict[str, Any]:
        trouble, usual = "", self.first_wait
        asked: float | None = None
        for attempt in range(self.retries + 1):
            if attempt:
                wait = usual if asked is None else asked
                if abandoned.wait(min(wait, retry_rules.LONGEST_WAIT)):
                    break
                usual, asked = 2 * usual, None
            try:
                response = self._client.post(f"{self.base_url}/{path}", json=body)
            except httpx2.RequestError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if response.status_code == 200:
                try:
                    answer = response.json()
                except (ValueError, RecursionError) as error:
                    trouble = f"an answer that is not JSON ({error})"
                    continue
                if isinstance(answer, dict):
                    return answer
                raise ServerError(self._told(path, f"answered {type(answer).__name__}, no object"))
            trouble = f"status {response.status_code}: {self._message(response)}"
            if response.status_code not in retry_rules.AGAIN:
                of_request = response.status_code in retry_rules.OF_THE_REQUEST
                refused = ValueError if of_request else ServerError
                raise refused(self._told(path, f"refused the request with {trouble}"))
            asked = retry_rules.wait_asked(response.headers.get("Retry-After"), datetime.now(UTC))
        raise ServerError(
            self._told(path, f"failed {self.retries + 1} time(s), at last with {trouble}")
        )

    def _told(self, path: str, what: str) -> str:
        return api_keys.hidden(f"{self.base_url}/{path} {what}", self._key)

    def _message(self, response: Any) -> str:
        """What the server says is wrong, where it says so as OpenAI's servers do, without the key.

        Cut only then: what is left of a key at the cut would be found by nobody.
        """
        try:
            told = response.json()
            told = told.get("error", told)
            text = str(told.get("message", told))
        except (ValueError, RecursionError, AttributeError):
            text = str(response.text)
        return api_keys.hidden(text, self._key)[:LONGEST_MESSAGE]


def _awaited(answer: futures.Future[dict[str, Any]]) -> dict[str, Any]:
    while not futures.wait([answer], timeout=GLANCE).done:
        pass
    return answer.result()


def _address(base_url: Any) -> str:
    """The address before the path; what may hold a secret is refused, and not shown."""
    if not isinstance(base_url, str):
        raise TypeError(f"base_url must be a text, got {type(base_url).__name__}")
    expected = "base_url must be an address such as 'http://localhost:8000/v1'"
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        raise ValueError(f"{expected}, and what was passed is none (it is not shown)") from None
    if url.userinfo:
        raise ValueError("base_url must hold no user name or password: pass api_key instead")
    if "?" in base_url or "#" in base_url:
        raise ValueError(f"{expected}, without a query or a fragment (they are not shown)")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{expected}, got the scheme {url.scheme!r} and the host {url.host!r}")
    return str(url).rstrip("/")
