"""The last actions of a run in words, with the losses that have arrived."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sql

from tether.rounds.last_rows import LastRows
from tether.rounds.store import schema
from tether.rounds.store.codecs import NO_CONTENT, Codec, RowCodecs
from tether.rounds.store.lanes import Lane
from tether.rounds.store.queries import read_settings

MAX_SHOWN_TEXT = 120
"""How many characters of a context or an action are shown."""


@dataclass(frozen=True)
class RecentAction:
    """An action.

    Parameters
    ----------
    id : int
        Its id.
    round : int
        The round in which it was taken.
    served : int
        The round whose policy took it; 0 for the safe policy.
    context : str
        Its context as text, shortened; empty where there are no contexts.
    action : str
        What was done, likewise; on shortlists the candidate that was picked.
    seen : str or None
        When it was first seen here, in UTC, as ISO 8601: soon after it was stored, which has no
        time itself. None if it was there at the first look.
    losses : mapping of str to float
        The losses that have arrived, by name.
    """

    id: int
    round: int
    served: int
    context: str
    action: str
    seen: str | None
    losses: Mapping[str, float]


class RecentActions:
    """Follows the last actions."""

    def __init__(self) -> None:
        self._codecs: RowCodecs | None = None  # the first rows fix them
        action = schema.actions
        names = ("round", "served", "context", "candidates", "action")
        self._rows = LastRows([action.c[name] for name in names], self._contents)

    def look(
        self, connection: sql.Connection, lanes: Mapping[int, Lane], names: list[str]
    ) -> tuple[RecentAction, ...]:
        """The last actions as of a transaction, latest first."""
        if self._codecs is None:
            settings = read_settings(connection)
            self._codecs = RowCodecs.from_dict(settings) if "actions" in settings else None
        return tuple(
            RecentAction(each.id, *each.content, each.seen, each.losses)
            for each in self._rows.look(connection, lanes, names)
        )

    def _contents(self, rows: Sequence[Any]) -> list[tuple[int, int, str, str]]:
        codecs = self._codecs
        assert codecs is not None  # they are stored before any row
        contexts = _values(codecs.context, [row.context for row in rows])
        actions = _values(codecs.action, [row.action for row in rows])
        if codecs.candidates is not None:
            lists = _values(codecs.candidates, [row.candidates for row in rows])
            actions = [each[int(place)] for each, place in zip(lists, actions, strict=True)]
        return [
            (row.round, row.served, shown_text(context), shown_text(action))
            for row, context, action in zip(rows, contexts, actions, strict=True)
        ]


def shown_text(value: Any) -> str:
    """Text as it is, anything else as JSON; shortened, on one line.

    >>> shown_text("two  words"), shown_text([0.5, 1]), shown_text(None), len(shown_text("a" * 999))
    ('two words', '[0.5, 1]', '', 120)
    """
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text[: 4 * MAX_SHOWN_TEXT].split())
    return text if len(text) <= MAX_SHOWN_TEXT else f"{text[: MAX_SHOWN_TEXT - 1]}…"


def _values(codec: Codec, rows: Sequence[bytes | None]) -> list[Any]:
    """One plain value per row; None where nothing is stored."""
    if codec.kind == NO_CONTENT:
        return [None] * len(rows)
    decoded = codec.decode(rows)
    if hasattr(decoded, "iloc"):
        return list(decoded.to_dict("records"))
    return list(decoded.tolist())
