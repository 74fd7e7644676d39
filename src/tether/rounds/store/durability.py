"""Whether the database keeps what it has confirmed, also when the machine fails."""

from __future__ import annotations

import sqlalchemy as sql

_CONSEQUENCES = {
    "synchronous_commit": "calls that returned shortly before a crash of the server are lost",
    "fsync": "a crash of the machine can lose or damage the whole database",
    "full_page_writes": "a crash of the machine can damage the database",
}
"""The settings of PostgreSQL that must be on, and what happens if they are not."""


def durability_warnings(connection: sql.Connection) -> tuple[str, ...]:
    """What a PostgreSQL server may lose of what it has confirmed; empty if nothing.

    The settings are those in force for this connection: of the server, the database, the role or
    the URL. `synchronous_commit` may also be "local", "remote_write" or "remote_apply", which keep
    what was confirmed through a crash of this server. SQLite stores are always durable.
    """
    if connection.dialect.name != "postgresql":
        return ()
    settings = sql.table("pg_settings", sql.column("name"), sql.column("setting"))
    query = sql.select(settings.c.name).where(
        settings.c.name.in_(list(_CONSEQUENCES)), settings.c.setting == "off"
    )
    off = set(connection.scalars(query))
    return tuple(
        f"the PostgreSQL server runs with {name}=off: {consequence}"
        for name, consequence in _CONSEQUENCES.items()
        if name in off
    )
