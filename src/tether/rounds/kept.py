"""What is kept of a run by name: the state of its monitors, which follows from its rows."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from tether.rounds.store import schema


class Kept:
    """Values by name: read together, changed in memory, and written together by `save`."""

    def __init__(self, connection: sql.Connection, *names: str) -> None:
        self.connection = connection
        self._values: dict[str, str | None] = {}
        self._changed: set[str] = set()
        self.load(names)

    def load(self, names: Iterable[str]) -> None:
        """Read values that will be asked for, in one query."""
        unread = [name for name in names if name not in self._values]
        if unread:
            table = schema.kept
            query = sql.select(table.c.name, table.c.value).where(table.c.name.in_(unread))
            found = {row.name: row.value for row in self.connection.execute(query)}
            self._values |= {name: found.get(name) for name in unread}

    def __getitem__(self, name: str) -> str | None:
        self.load([name])
        return self._values[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._values[name] = value
        self._changed.add(name)

    def save(self) -> None:
        """Write everything that changed, in place of earlier values."""
        if not self._changed:
            return
        is_sqlite = self.connection.dialect.name == "sqlite"
        statement = (sqlite.insert if is_sqlite else postgresql.insert)(schema.kept)
        statement = statement.on_conflict_do_update(
            index_elements=["name"], set_={"value": statement.excluded.value}
        )
        rows = [{"name": name, "value": self._values[name]} for name in sorted(self._changed)]
        self.connection.execute(statement, rows)
        self._changed.clear()
