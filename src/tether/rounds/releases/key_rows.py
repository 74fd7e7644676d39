"""The rows of keys: at most one for each key and system, which a unique index guarantees."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import sqlalchemy as sql

from tether.rounds.store import schema
from tether.rounds.store.codecs import TEXT_ROWS, Codec, RowCodecs
from tether.rounds.store.database import Store
from tether.rounds.store.queries import IDS_PER_QUERY

OLD, NEW = "old", "new"
"""The two systems, as `assign` names them."""
MAX_RELEASE_KEY_BYTES = 500
"""How long a key may be."""
KEY_CACHE_KIB = 32_768
"""How much of an SQLite store a connection keeps in memory."""
CHECKPOINT_PAGES = (1_000, 20_000)
"""How many pages the log of an SQLite store collects at least and at most before it is copied."""
LOG_PER_STORE = 4
"""In between, it may be so many times as large as the store."""
USES_PER_LOOK = 64
"""How often a connection is used between two looks at the size of the store."""
KEY_CODECS = RowCodecs(Codec(TEXT_ROWS), Codec(TEXT_ROWS))
"""How keys and systems are stored: as contexts and actions that are text."""

Key = str | bytes | int


class KeyRow(NamedTuple):
    """The row of a key and a system."""

    id: int
    step: int
    system: str


def is_one_key(keys: Key | Iterable[Key]) -> TypeGuard[Key]:
    """Whether something is one key, and not several."""
    return isinstance(keys, str | bytes | int | np.integer)


def listed_keys(keys: Key | Iterable[Key]) -> list[Key]:
    """One key or several, as a list."""
    if is_one_key(keys):
        return [keys]
    if isinstance(keys, bytearray | memoryview) or not isinstance(keys, Iterable):
        raise TypeError(f"keys must be a str, bytes or int, or several of them, got {keys!r}")
    return list(keys)


def create_key_index(connection: sql.Connection) -> None:
    """Let the database refuse a second row of a key and a system, and find the first."""
    table = schema.actions.name
    connection.execute(sql.text(f"CREATE UNIQUE INDEX tether_keys ON {table} (context, action)"))


def tune_for_keys(store: Store) -> None:
    """Let the log of a large SQLite file collect the pages of many batches before they are copied.

    Keys come in no order, so that each row changes another page of their index. With the default, a
    thousand pages, a batch of a thousand keys would be copied into a large file at every commit. A
    small file keeps the default, or its log would be many times as large as itself.
    """
    if store.file is None:
        return
    engine = store._engine

    def tune(connection: Any, _: Any) -> None:
        connection.execute(f"PRAGMA cache_size = -{KEY_CACHE_KIB}").fetchall()

    def look(connection: Any, record: Any, _: Any) -> None:
        uses = record.info["tether_uses"] = record.info.get("tether_uses", -1) + 1
        if uses % USES_PER_LOOK:
            return
        with suppress(sqlite3.Error):  # the transaction that follows says what is wrong
            pages = checkpoint_pages(connection.execute("PRAGMA page_count").fetchone()[0])
            connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").fetchall()

    sql.event.listen(engine, "connect", tune)
    sql.event.listen(engine, "checkout", look)
    engine.dispose()  # the connections so far have the defaults


def checkpoint_pages(stored: int) -> int:
    """How many pages the log may collect beside a store of so many pages.

    >>> checkpoint_pages(230), checkpoint_pages(2_000), checkpoint_pages(1_000_000)
    (1000, 8000, 20000)
    """
    least, most = CHECKPOINT_PAGES
    return min(most, max(least, LOG_PER_STORE * stored))


def key_content(key: Key) -> bytes:
    """A key as it is stored and hashed: text as UTF-8, an integer as its decimal digits."""
    if isinstance(key, str):
        content = key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        content = key
    elif isinstance(key, int | np.integer) and not isinstance(key, bool):
        content = str(int(key)).encode()
    else:
        raise TypeError(f"a key must be a str, bytes or int, got {key!r}")
    if not 0 < len(content) <= MAX_RELEASE_KEY_BYTES:
        raise ValueError(f"a key must have 1 to {MAX_RELEASE_KEY_BYTES} bytes, got {key!r:.80}")
    try:
        is_text = "\0" not in content.decode()
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        raise ValueError(f"a key must be text in UTF-8 without NUL, got {key!r:.80}")
    return content


def read_key_rows(
    connection: sql.Connection, keys: Sequence[bytes]
) -> dict[bytes, dict[str, KeyRow]]:
    """The rows of keys, by system; those that have none are left out."""
    found: dict[bytes, dict[str, KeyRow]] = {}
    for key, number, step, action in _fetch_key_rows(connection, keys):
        system = bytes(action).decode()
        found.setdefault(bytes(key), {})[system] = KeyRow(number, step, system)
    return found


def _fetch_key_rows(connection: sql.Connection, keys: Sequence[bytes]) -> Iterator[Any]:
    """Rows of keys through the driver, which is much faster with hundreds of parameters.

    PostgreSQL would keep a plan from when the table was small, and read all of it for every call.
    """
    query = f"SELECT context, id, round, action FROM {schema.actions.name} WHERE context"
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        listed = ",".join(f'"\\\\x{key.hex()}"' for key in keys)
        found = connection.exec_driver_sql(f"{query} = ANY(%s::bytea[])", (f"{{{listed}}}",))
        yield from found.fetchall()
        return
    for begin in range(0, len(keys), IDS_PER_QUERY):
        some = tuple(keys[begin : begin + IDS_PER_QUERY])
        places = ", ".join("?" * len(some))
        yield from connection.exec_driver_sql(f"{query} IN ({places})", some).fetchall()


def find_repeated_keys(connection: sql.Connection) -> Iterable[str]:
    """Keys with several rows of one system, which the index does not allow."""
    table = schema.actions
    count = sql.func.count()
    query = sql.select(table.c.context, count).group_by(table.c.context, table.c.action)
    for key, number in connection.execute(query.having(count > 1).limit(5)):
        yield f"key {bytes(key).decode(errors='replace')!r} has {number} rows of one system"
