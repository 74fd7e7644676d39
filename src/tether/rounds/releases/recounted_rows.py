"""Rows in groups, counted by the database and not by the reader that a run itself uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sql

from tether.rounds.releases.grouped_counts import Group, GroupedCounts
from tether.rounds.releases.step import Seen
from tether.rounds.store import schema
from tether.rounds.store.lanes import first_id


def add_rows(
    connection: sql.Connection,
    rows: GroupedCounts[Group],
    columns: Sequence[str],
    group: Callable[..., Group],
    *,
    after: Seen,
    to: Seen,
) -> None:
    """Add the rows and the losses that were stored after one moment, and up to another.

    The values of some columns of an action decide its group. Rows that were withdrawn are taken
    off.
    """
    action, observed = schema.actions, schema.observations
    names = [action.c[name] for name in columns]
    actions = sql.select(*names, sql.func.count()).group_by(*names)
    sums = (sql.func.count(), sql.func.count(observed.c.loss), sql.func.sum(observed.c.loss))
    losses = (
        sql.select(*names, observed.c.which, *sums)
        .join_from(observed, action, observed.c.action == action.c.id)
        .group_by(*names, observed.c.which)
    )
    for lane, last in to.items():
        start, first = first_id(lane), after.get(lane, (0, 0))
        within = [
            (column > start + begin, column <= start + end)
            for column, begin, end in zip(
                (action.c.id, observed.c.number), first, last, strict=True
            )
        ]
        for *values, count in connection.execute(actions.where(*within[0])):
            rows.rows[group(*values)] += count
        for *values, which, count, known, total in connection.execute(losses.where(*within[1])):
            own, name = group(*values), rows.names[which]
            rows.rows[own] -= count - known
            rows.known[own, name] += known
            rows.totals[own, name] += float(total or 0.0)
