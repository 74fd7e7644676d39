"""The file of a store that is one."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import exc


def sqlite_file(url: str | Path) -> Path | None:
    """The file of an SQLite store; None if it is in memory or on a server."""
    text = str(url).strip()
    if "://" not in text:
        return Path(text)
    try:
        parsed = sql.make_url(text)
    except (exc.ArgumentError, ValueError):
        return None
    if not parsed.drivername.startswith("sqlite") or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))
