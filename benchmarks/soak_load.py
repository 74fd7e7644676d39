"""Clients of a service under disturbances: each request is sent until it is answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

ANSWER_SECONDS = 20.0
"""A request without an answer for so long, while a worker is up, has none."""
RETRY_SECONDS = 0.02
CHAT_PATH, CHAT_SHARE = "/v1/chat/completions", 0.2
"""So many of the requests go through the gateway."""


@dataclass(frozen=True)
class Answer:
    """What a client was told of a key, and when."""

    sent: float
    received: float
    system: str
    stored: bool


@dataclass
class Log:
    """Everything that clients saw."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Client:
    """Decides on keys of its own, one after the other, and reports losses of some."""

    def __init__(self, number: int, port: int, log: Log, per_second: float) -> None:
        self._port, self._log, self._pause = port, log, 1 / per_second
        self._rng, self._keys = random.Random(number), count()
        self._name, self._recent = f"client {number}", list[str]()
        self._headers: dict[str, str] = {}
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, ends: asyncio.Event) -> None:
        """Ask until the end."""
        while not ends.is_set():
            if self._recent and self._rng.random() < 0.5:
                key = self._rng.choice(self._recent)
            else:
                key = f"{self._name}: {next(self._keys)}"
                self._recent = [*self._recent[-199:], key]
            sent, is_chat = time.time(), self._rng.random() < CHAT_SHARE
            found = await (self._chat(key) if is_chat else self._decide(key))
            if found is not None:
                answer = Answer(sent, time.time(), *found)
                self._log.answers.setdefault(key, []).append(answer)
                if not is_chat:
                    self._log.seconds.append(answer.received - sent)
                if answer.stored and self._rng.random() < 0.3:
                    await self._report(key, answer.system)
            await asyncio.sleep(self._pause * self._rng.uniform(0.5, 1.5))
        self._close()

    async def _decide(self, key: str) -> tuple[str, bool] | None:
        """The system of a key, and whether it is stored."""
        found = await self._ask("/v1/decisions", {"key": key})
        return None if found is None else (found["system"], found["stored"])

    async def _chat(self, key: str) -> tuple[str, bool] | None:
        """The same of a chat through the gateway, whose answer must be that of who served it."""
        messages = [{"role": "user", "content": "Who are you?"}]
        found = await self._ask(CHAT_PATH, {"model": "any", "user": key, "messages": messages})
        if found is None:
            return None
        system, served = (self._headers[f"x-tether-{each}"] for each in ("system", "served"))
        said = found["choices"][0]["message"]["content"]
        if served != said or (system, served) not in (
            ("old", "old"),
            ("new", "new"),
            ("new", "old"),
        ):
            self._log.counts[f"no answer of {CHAT_PATH}: {served} is said to be {said}"] += 1
        self._log.counts["chats"] += 1
        self._log.counts["chats of the new system by the old upstream"] += system != served
        return system, self._headers["x-tether-stored"] == "true"

    async def _report(self, key: str, system: str) -> None:
        loss = float(self._rng.random() < 0.02)
        body = {"key": key, "system": system, "losses": {"complaint": loss}, "keep_first": True}
        await self._ask("/v1/outcomes", body)

    async def _ask(self, path: str, body: dict[str, object]) -> dict[str, object] | None:
        """The answer to a request, which is repeated if its connection is lost."""
        end = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < end:
            try:
                status, content = await asyncio.wait_for(
                    self._send(path, body), end - time.monotonic()
                )
            except TimeoutError:
                break
            except (OSError, asyncio.IncompleteReadError) as error:
                self._log.counts[f"connections: {type(error).__name__}"] += 1
                self._close()
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if status == 200:
                return json.loads(content)
            self._log.counts[f"status {status} of {path}"] += 1
            if path == "/v1/outcomes" and status == 503:
                return None  # clients may repeat it; here others come
            assert status == 503, content  # a worker that shuts down
            await asyncio.sleep(RETRY_SECONDS)
        self._log.counts[f"no answer of {path}"] += 1
        self._close()
        return None

    async def _send(self, path: str, body: dict[str, object]) -> tuple[int, bytes]:
        if self._stream is None:
            self._stream = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._stream
        content = json.dumps(body).encode()
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\n\r\n".encode()
            + content
        )
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        pairs = (line.partition(":") for line in lines if line)
        self._headers = {name.lower(): value.strip() for name, _, value in pairs}
        length = int(self._headers["content-length"])
        return int(first.split()[1]), await reader.readexactly(length)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
            self._stream = None
