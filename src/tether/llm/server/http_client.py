"""The HTTP client of a completions server: requests at a time, retries, and a deadline."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import weakref
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import httpx2

from tether._core import progress, validate
from tether._core.redact import redact_url
from tether.llm.server.api_keys import check_key, hide_key
from tether.llm.server.background_loop import background_loop, run_in_background
from tether.llm.server.concurrency_limit import ConcurrencyLimit
from tether.llm.server.kept_answers import KeptAnswers
from tether.llm.server.server_error import (
    INVALID_REQUEST_STATUSES,
    MAX_SHOWN_CHARACTERS,
    OVERLOAD_STATUSES,
    RETRIED_STATUSES,
    ServerError,
    advice_on_loss,
    error_text,
    parse_retry_after,
)

logger = logging.getLogger("tether.llm")

FIRST_CONNECTION_SECONDS = 5.0
"""For how long a server that has never answered is tried, if nothing can be connected to."""
MAX_RETRY_WAIT = 30.0
"""The largest number of seconds between two attempts, whatever the server asks for."""


class _NotJSONError(Exception):
    """A response that should be JSON."""


class HTTPClient:
    """Posts JSON, several requests at a time; a request that fails is sent again unchanged.

    A request carries its own seed, so a retry cannot return another draw. The key is sent with
    each request, and is shown in no message and no representation. If one request of a call fails
    for good, the answers that the others have got are kept: the same requests in a later call are
    not sent again.

    Parameters
    ----------
    base_url : str
        The address of the server up to the version.
    api_key : str or None
        The key that is sent in the Authorization header.
    timeout : float
        Seconds after which an attempt counts as failed.
    deadline : float
        Seconds after which a request that keeps failing is given up.
    retries : int or None
        How many times at most it is sent again; None for as often as the deadline allows.
    concurrency : int or None
        How many requests are under way at a time; None for as many as the server gains from.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        deadline: float = 300.0,
        retries: int | None = None,
        concurrency: int | None = None,
    ) -> None:
        self.base_url = _check_url(base_url)
        self.timeout = validate.number("timeout", timeout, above=0, below=float("inf"))
        self.deadline = validate.number("deadline", deadline, above=0, below=float("inf"))
        self.retries = None if retries is None else validate.integer_at_least("retries", retries, 0)
        self.concurrency = (
            None if concurrency is None else validate.integer_at_least("concurrency", concurrency)
        )
        self.first_retry_wait = 0.5
        self._key = check_key(api_key)
        self._kept = KeptAnswers()
        self._has_answered = False
        self._begin_anew()

    def post_all(
        self,
        path: str,
        bodies: Sequence[dict[str, Any]],
        *,
        fresh: bool = False,
        doing: str = "waiting for answers",
    ) -> list[dict[str, Any]]:
        """The responses to several requests, in order; the first that fails for good raises.

        Then, or when the caller is interrupted, nothing more is sent, and requests that are under
        way are abandoned. Equal requests are sent once, as their answers are the same, unless they
        ask for `fresh` draws without a seed: then each has an answer of its own, which is not kept.
        What is being done is shown as the progress of the requests.
        """
        if self._process != os.getpid():  # after a fork
            self._begin_anew()
        with progress.step(doing, total=len(bodies)) as step:
            return run_in_background(self._post_all(path, bodies, fresh, step))

    def __repr__(self) -> str:
        return f"HTTPClient({self.base_url!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but connections, which no other process can use."""
        return {k: v for k, v in vars(self).items() if k not in ("_client", "_limit", "_process")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin_anew()

    def _begin_anew(self) -> None:
        """No connections yet."""
        self._client: httpx2.AsyncClient | None = None
        self._limit, self._process = ConcurrencyLimit(self.concurrency), os.getpid()

    async def _post_all(
        self, path: str, bodies: Sequence[dict[str, Any]], fresh: bool, step: progress.Step
    ) -> list[dict[str, Any]]:
        names = [_name(path, body) + (b"%d" % k if fresh else b"") for k, body in enumerate(bodies)]
        answers = {} if fresh else self._kept.find(names)
        requests = {name: k for k, name in enumerate(names) if name not in answers}
        asked_by = Counter(names)
        step.advance(sum(asked_by[name] for name in answers))
        has_failed = False

        async def answer(name: bytes, place: int) -> None:
            nonlocal has_failed
            async with self._limit:
                if has_failed:
                    return
                try:
                    answers[name] = await self._post(path, bodies[place])
                except BaseException as error:
                    has_failed = True
                    if len(names) > 1 and isinstance(error, (ServerError, ValueError)):
                        told = f"{error} (request {place + 1} of {len(names)})"
                        raise _same_kind(error)(told) from error
                    raise
                step.advance(asked_by[name])

        tasks = [asyncio.ensure_future(answer(name, place)) for name, place in requests.items()]
        try:
            for task in asyncio.as_completed(tasks):
                await task
        except BaseException:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if not fresh:
                self._kept.keep(answers)
            raise
        if not fresh:
            self._kept.drop(names)
        return [answers[name] for name in names]

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The response to one request, with retries until the deadline."""
        failures: list[str] = []
        begin, wait = time.monotonic(), self.first_retry_wait
        end = begin + self.deadline
        while True:
            requested: float | None = None
            try:
                left = end - time.monotonic()
                async with asyncio.timeout(min(left, self.timeout)):  # the whole response
                    response = await self._connected().post(f"{self.base_url}/{path}", json=body)
                self._has_answered = True
                if response.status_code == 200:
                    content = _read_json(response)
                    self._limit.answered()
                    return self._checked(path, content)
                failure = f"status {response.status_code}: {error_text(response)}"
                self._refuse(path, response.status_code, failure)
                now = datetime.now(UTC)
                requested = parse_retry_after(response.headers.get("Retry-After"), now)
            except httpx2.RequestError as error:
                failure = f"{type(error).__name__}: {error}"
                if isinstance(error, httpx2.ConnectError) and self._is_unknown:
                    end = min(end, begin + FIRST_CONNECTION_SECONDS)
            except _NotJSONError as error:
                failure = f"a response that is not JSON ({error})"
            except TimeoutError:
                failure = "ReadTimeout: no whole answer in time"
            failures.append(self._shown(failure))
            seconds = min(wait if requested is None else requested, MAX_RETRY_WAIT)
            wait *= 2
            is_last = self.retries is not None and len(failures) > self.retries
            if is_last or time.monotonic() + seconds >= end:
                told = f"{_told(failures)}{advice_on_loss(body, failures)}"
                if failures[-1].startswith("ConnectError") and not self._has_answered:
                    told += ": is the server started, and is this its address?"
                raise ServerError(f"{self.base_url}/{path} {told}")
            logger.info(
                *("sending again in %.1f s to %s: %s", seconds, redact_url(self.base_url)),
                failures[-1],
            )
            await _wait(seconds)

    @property
    def _is_unknown(self) -> bool:
        """Whether it may be no server at all: it has never answered, and nobody named retries."""
        return not self._has_answered and self.retries is None

    def _connected(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
                timeout=self.timeout,
                limits=httpx2.Limits(max_connections=None),
            )
            weakref.finalize(self, _close, self._client, self._process).atexit = False
        return self._client

    def _checked(self, path: str, content: Any) -> dict[str, Any]:
        if isinstance(content, dict):
            return content
        kind = type(content).__name__
        raise ServerError(f"{self.base_url}/{path} returned {kind}, not an object")

    def _refuse(self, path: str, status: int, failure: str) -> None:
        """Raise the error of a status after which the same request would fail again."""
        if status in OVERLOAD_STATUSES:
            self._limit.overloaded()
        if status not in RETRIED_STATUSES:
            error_class = ValueError if status in INVALID_REQUEST_STATUSES else ServerError
            shown = self._shown(failure)
            raise error_class(f"{self.base_url}/{path} refused the request with {shown}")

    def _shown(self, failure: str) -> str:
        """What is shown of a failure.

        Truncated only after the key is hidden: a truncated key would not be recognized.
        """
        return hide_key(failure, self._key)[:MAX_SHOWN_CHARACTERS]


def _close(client: httpx2.AsyncClient, process: int) -> None:
    """Close connections that nobody uses any more; those of a parent process are not ours."""
    if process == os.getpid():
        loop = background_loop()
        loop.call_soon_threadsafe(lambda: loop.create_task(client.aclose()))


def _same_kind(error: BaseException) -> type[Exception]:
    return ServerError if isinstance(error, ServerError) else ValueError


def _read_json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise _NotJSONError(str(error)) from None


def _name(path: str, body: dict[str, Any]) -> bytes:
    return sha256(f"{path} {json.dumps(body)}".encode()).digest()


async def _wait(seconds: float) -> None:
    """Wait before a retry."""
    await asyncio.sleep(seconds)


def _told(failures: Sequence[str]) -> str:
    """How a request has failed: the first cause and the last."""
    last = failures[-1]
    if len(failures) == 1 or failures[0] == last:
        return f"failed {len(failures)} time(s), at last with {last}"
    return f"failed {len(failures)} time(s), first with {failures[0]}, at last with {last}"


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
