"""Requests to a server through the official `openai` client: several at a time, from plain code.

The client runs in an event loop in a thread of its own, which all clients of a process share. So
callers are ordinary functions, even inside another event loop such as a notebook's.
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

from tether._core import extras, progress, validate

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Result = TypeVar("Result")
Context = TypeVar("Context", bound=Hashable)
Request: TypeAlias = tuple[str, dict[str, Any]]  # its path and body

POLL_INTERVAL = 1.0
"""Seconds after which a waiting caller sees an interrupt, or that the program ends."""
INVALID_REQUEST_STATUSES = frozenset({400, 413, 422})
"""Refusals of the request itself, such as a prompt that is too long; others refuse the sender."""
MAX_SHOWN_CHARACTERS = 500
"""How much of a server's error message is shown."""
TOKEN_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
"""The counts of a server's stated usage that are summed."""


class Connection(TypedDict, total=False):
    """How a server is reached: the key, seconds a response may take, retries, requests at once."""

    api_key: str | None
    timeout: float
    retries: int
    concurrency: int


class ServerError(RuntimeError):
    """The server is unavailable, refused the sender or returned no answer, after all retries.

    A refusal of the request itself (status 400, 413 or 422) is a `ValueError` instead.
    """


class Client:
    """Posts JSON to a server, and retries what failed; no message shows the key."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        retries: int = 4,
        concurrency: int = 32,
    ) -> None:
        extras.require("a model on a server", "openai")
        self.base_url = _check_url(base_url)
        self.timeout = validate.number("timeout", timeout, above=0, below=float("inf"))
        self.retries = validate.integer("retries", retries, 0)
        self.concurrency = validate.integer("concurrency", concurrency)
        self._key = check_key(api_key)
        self._open: tuple[int, AsyncOpenAI, asyncio.Semaphore] | None = None

    def post_all(self, requests: Sequence[Request], *, doing: str) -> list[dict[str, Any]]:
        """The responses, in order; the first failure, or an interrupt, abandons the others."""
        with progress.step(doing, total=len(requests)) as advance:
            return _in_background(self._post_all(requests, advance))

    def __getstate__(self) -> dict[str, Any]:
        """Everything but connections, which no other process can use."""
        return {**vars(self), "_open": None}

    def _connected(self) -> tuple[AsyncOpenAI, asyncio.Semaphore]:
        if self._open is None or self._open[0] != os.getpid():  # never, or before a fork
            from openai import AsyncOpenAI

            client = AsyncOpenAI(
                base_url=self.base_url,
                api_key=self._key or "none",  # which a server without keys ignores
                timeout=self.timeout,
                max_retries=self.retries,
            )
            self._open = os.getpid(), client, asyncio.Semaphore(self.concurrency)
            weakref.finalize(self, _close, client, os.getpid()).atexit = False
        return self._open[1:]

    async def _post_all(
        self, requests: Sequence[Request], advance: progress.Advance
    ) -> list[dict[str, Any]]:
        client, limit = self._connected()

        async def post(path: str, body: dict[str, Any]) -> dict[str, Any]:
            async with limit:
                answer = await self._post(client, path, body)
            advance(1)
            return answer

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(post(*request)) for request in requests]
        except BaseExceptionGroup as errors:  # the first; the others were cancelled
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _post(self, client: AsyncOpenAI, path: str, body: dict[str, Any]) -> dict[str, Any]:
        import httpx2
        import openai

        address = f"{self.base_url}/{path}"
        try:
            response = await client.post(f"/{path}", body=body, cast_to=httpx2.Response)
            content = response.json()
        except openai.APIStatusError as error:
            kind = ValueError if error.status_code in INVALID_REQUEST_STATUSES else ServerError
            told = self._shown(f"status {error.status_code}: {error.message}")
            raise kind(f"{address} refused the request with {told}") from None
        except openai.APITimeoutError:
            raise ServerError(f"{address} gave no answer within {self.timeout:g} s") from None
        except openai.APIConnectionError as error:
            told = self._shown(f"{type(error.__cause__).__name__}: {error.__cause__}")
            raise ServerError(f"{address} cannot be reached ({told}): is it running?") from None
        except (ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise ServerError(f"{address} returned a response that is not a JSON object")
        return content

    def _shown(self, failure: str) -> str:
        """What is shown of a failure: a server may repeat the key, which must not be seen."""
        return failure.replace(self._key or "\0", "(key)")[:MAX_SHOWN_CHARACTERS]


def check_key(api_key: Any) -> str | None:
    """The key without white space around it; one that an HTTP library would show is refused."""
    key = "" if api_key is None else str(api_key).strip()
    if invalid := re.search(r"[^!-~]", key):
        raise ValueError(
            f"api_key must be printable ASCII without inner white space, but its character "
            f"{invalid.start()} of {len(key)} is not (the key is not shown)"
        )
    return key or None


def _check_url(base_url: Any) -> str:
    """The address before the path; parts that may hold a secret are refused and not shown."""
    url = re.fullmatch(r"https?://[^/@?#\s]+(/[^@?#\s]*)?", str(base_url))
    if url is None:
        raise ValueError(
            "base_url must be an address such as 'http://localhost:8000/v1', without user, "
            "password or query: a key is passed as api_key (what was given is not shown)"
        )
    return url[0].rstrip("/")


_answering: ContextVar[tuple[Event, Counter[str]] | None] = ContextVar("answering", default=None)
_lock = Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def _background_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked process has its own."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            Thread(target=loop.run_forever, name="tether-http", daemon=True).start()
        return loop


def _in_background(work: Coroutine[Any, Any, Result]) -> Result:
    """Wait for what a coroutine returns; if the wait is interrupted, it is cancelled."""
    running = asyncio.run_coroutine_threadsafe(work, _background_loop())
    try:
        while not futures.wait([running], timeout=POLL_INTERVAL).done:
            if (block := _answering.get()) is not None and block[0].is_set():
                raise ServerError("the request was abandoned: the program is ending")
        return running.result()
    finally:
        running.cancel()


def _close(client: AsyncOpenAI, process: int) -> None:
    """Close connections that nobody uses any more; those of a parent process are not ours."""
    if process == os.getpid() and (loop := _loops.get(process)) is not None:
        loop.call_soon_threadsafe(lambda: loop.create_task(client.close()))


@contextmanager
def answering(ending: Event) -> Iterator[Counter[str]]:
    """Count the draws in this block and thread, and the tokens that servers state for them.

    Nobody in it waits for a server any more once the event is set.
    """
    usage = Counter(dict.fromkeys(("draws", *TOKEN_COUNTS), 0))
    before = _answering.set((ending, usage))
    try:
        yield usage
    finally:
        _answering.reset(before)


def draw_by_requests(
    policy: Any,
    contexts: Sequence[Context],
    body: Callable[[Context, int], Request],
    read: Callable[[Context, dict[str, Any], int], list[Any]],
    doing: str,
) -> list[Any]:
    """One draw per context; equal contexts share requests for at most `policy.max_n` answers.

    A server that returns one answer where several were asked for is asked for the others, and for
    all later ones, one by one.
    """
    missing: dict[Context, list[int]] = {}
    for place, context in enumerate(contexts):
        missing.setdefault(context, []).append(place)
    drawn: dict[int, Any] = {}
    while missing:
        parts = [
            (context, places[start : start + (policy.max_n or len(places))])
            for context, places in missing.items()
            for start in range(0, len(places), policy.max_n or len(places))
        ]
        requests = [body(context, len(places)) for context, places in parts]
        missing = {}
        answers = policy.client.post_all(requests, doing=doing)
        for (context, places), answer in zip(parts, answers, strict=True):
            stated = answer.get("choices")
            count = 1 if isinstance(stated, list) and len(stated) == 1 else len(places)
            found = read(context, answer, count)
            drawn |= zip(places, found, strict=False)
            _count(len(found), answer.get("usage"))
            if len(found) < len(places):
                policy.max_n = 1
                missing.setdefault(context, []).extend(places[len(found) :])
    return [drawn[place] for place in range(len(contexts))]


def _count(draws: int, stated: Any) -> None:
    if (block := _answering.get()) is not None:
        counts = stated if isinstance(stated, dict) else {}
        block[1]["draws"] += draws
        block[1].update({n: counts[n] for n in TOKEN_COUNTS if type(counts.get(n)) is int})
