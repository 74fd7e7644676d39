"""The file of a store that is one."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import exc

from tether._core.files import redact_url


def store_text(store: str | Path) -> str:
    """The path or URL of a store as text, refused where no database can have it."""
    text = str(store).strip()
    if not isinstance(store, (str, Path)) or not text:
        raise ValueError(f"store must be a path or a database URL, got {store!r}")
    if "\0" in text:
        raise ValueError(f"store must not contain NUL or lone surrogates, got {redact_url(text)!r}")
    return text


def sqlite_file(url: str | Path) -> Path | None:
    """The file of an SQLite store; None if it is in memory or on a server."""
    text = store_text(url)
    if "://" not in text:
        return Path(text)
    try:
        parsed = sql.make_url(text)
    except (exc.ArgumentError, ValueError):
        return None
    if not parsed.drivername.startswith("sqlite") or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))
