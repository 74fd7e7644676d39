"""A server that is asked over HTTP: retries, timeouts, so many requests at a time."""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from tether import _check

AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""
LONGEST_WAIT = 30.0


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
        url = httpx2.URL(base_url)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(
                f"base_url must be an address such as 'http://localhost:8000/v1', got "
                f"{url.copy_with(userinfo=b'')!s:.200}"
            )
        if url.userinfo:
            raise ValueError("base_url must hold no user name or password: pass api_key instead")
        self.base_url = str(url).rstrip("/")
        self.retries, self.concurrency = retries, concurrency
        self.first_wait = 0.5
        self._key = api_key
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=_check.number("timeout", timeout, above=0, below=float("inf")),
            limits=httpx2.Limits(max_connections=concurrency),
        )
        weakref.finalize(self, self._client.close)

    def ask(self, path: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to several requests, in their order; the first that fails for good raises."""
        with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
            waiting = [pool.submit(self._ask_once, path, body) for body in bodies]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                for each in waiting:
                    each.cancel()
                raise

    def __repr__(self) -> str:
        return f"Server({self.base_url!r})"

    def _ask_once(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        trouble, wait = "", self.first_wait
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(min(wait, LONGEST_WAIT))
                wait *= 2
            try:
                response = self._client.post(f"{self.base_url}/{path}", json=body)
            except httpx2.TransportError as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if response.status_code == 200:
                try:
                    answer = response.json()
                except (json.JSONDecodeError, UnicodeDecodeError) as error:
                    trouble = f"an answer that is not JSON ({error})"
                    continue
                if isinstance(answer, dict):
                    return answer
                raise ServerError(self._told(path, f"answered {type(answer).__name__}, no object"))
            trouble = f"status {response.status_code}: {_message(response)}"
            if response.status_code not in AGAIN:
                raise ValueError(self._told(path, f"refused the request with {trouble}"))
            asked = response.headers.get("Retry-After", "")
            wait = float(asked) if asked.isdigit() else wait
        raise ServerError(
            self._told(path, f"failed {self.retries + 1} time(s), at last with {trouble}")
        )

    def _told(self, path: str, what: str) -> str:
        text = f"{self.base_url}/{path} {what}"
        return text.replace(self._key, "(key)") if self._key else text


def _message(response: Any) -> str:
    """What the server says is wrong, where it says so as OpenAI's servers do."""
    try:
        told = response.json()
        told = told.get("error", told)
        return str(told.get("message", told))[:500]
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError):
        return str(response.text)[:500]
