"""What happens while the store does not answer: calls that wait, in a local file or in memory.

Each has a mark, under which it is delivered once, however often the process or the store fails in
between.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tether.runs.errors import StoreError

OUTBOX_MARK = b"outbox"
"""How the marks of events begin that were delivered from an outbox."""
_OPEN = """
PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=FULL; BEGIN EXCLUSIVE;
CREATE TABLE IF NOT EXISTS waiting (mark BLOB UNIQUE, kind TEXT NOT NULL, body BLOB NOT NULL);
COMMIT"""


class Waiting(NamedTuple):
    """A call that waits: what it was, and its body."""

    mark: bytes
    kind: str
    body: bytes


class Outbox:
    """Calls in their order; on the disk when `add` returns, if there is a path.

    The file belongs to one process at a time.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.name = "memory" if path is None else str(path)
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=1.0,
                check_same_thread=False,
                isolation_level=None,
            )
            self._connection.executescript(_OPEN)
            stored = self._connection.execute("SELECT * FROM waiting ORDER BY rowid")
            self._waiting = [Waiting(*row) for row in stored]
        except sqlite3.Error as error:
            raise StoreError(
                f"could not open the outbox {self.name}: {error}. Each process needs its own"
            ) from error

    @classmethod
    def of(cls, fallback: str | Path | None, word: str) -> Outbox | None:
        """The outbox that a fallback asks for; another bare word would become a file's name."""
        if fallback is None:
            return None
        if isinstance(fallback, str) and fallback != word and Path(fallback).stem == fallback:
            raise ValueError(f"fallback must be {word!r} or the path of a file, got {fallback!r}")
        return cls(None if fallback == word else fallback)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, kind: str, body: bytes) -> None:
        """Let a call wait for the store."""
        waiting = Waiting(OUTBOX_MARK + secrets.token_bytes(8), kind, body)
        with self._lock:
            try:
                self._connection.execute("INSERT INTO waiting VALUES (?, ?, ?)", waiting)
            except sqlite3.Error as error:
                raise StoreError(f"could not write the outbox {self.name}: {error}") from error
            self._waiting.append(waiting)

    def first(self, count: int) -> list[Waiting]:
        """The calls that have waited longest."""
        return self._waiting[:count]

    def remove(self, delivered: list[Waiting]) -> None:
        """Forget what was delivered; what stays in the file is known by its mark the next time."""
        if not delivered:
            return
        with self._lock, suppress(sqlite3.Error):
            del self._waiting[: len(delivered)]
            last = "(SELECT rowid FROM waiting WHERE mark = ?)"
            statement = f"DELETE FROM waiting WHERE rowid <= {last}"
            self._connection.execute(statement, delivered[-1][:1])

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._connection.close()
