"""Whether the observations are of a kind that `observe` and `withdraw` store.

The hash chain shows that rows are as they were written; not that tether wrote them, since anyone
can compute a chain. These are the rules that every call keeps, each checked by one query.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sql

from tether.rounds.checked_observations import LARGEST_REWARD
from tether.rounds.limits import Limits
from tether.rounds.store import schema

_ROW, _OTHER = schema.observations, schema.observations.alias("other")
_SAME_ACTION = _ROW.join(
    _OTHER, (_ROW.c.action == _OTHER.c.action) & (_ROW.c.which != _OTHER.c.which)
)


def find_wrong_observations(connection: sql.Connection, limits: Limits) -> Iterator[str]:
    """Observations that tether cannot have written, one sentence for each kind of them."""
    for what, source, is_wrong in _rules(limits):
        wrong = sql.select(sql.func.count(), sql.func.min(_ROW.c.action))
        count, first = connection.execute(wrong.select_from(source).where(is_wrong)).one()
        if count:
            yield f"observations {what}: {count:,}, the first of action {first}"


def _rules(
    limits: Limits,
) -> Iterator[tuple[str, sql.FromClause, sql.ColumnElement[bool]]]:
    """What observations may not be: in words, the rows to look at, and those that are wrong."""
    row, action = _ROW.c, schema.actions
    with_actions = _ROW.outerjoin(action, row.action == action.c.id)
    yield "are of actions that do not exist", with_actions, action.c.id.is_(None)
    unknown = ~row.which.between(0, len(limits) - 1)
    yield "are of losses that the run does not have", _ROW, unknown
    bounds = [
        (row.which == which) & ~row.loss.between(0.0, limit.bound)
        for which, limit in enumerate(limits.values())
    ]
    yield "have losses outside [0, bound]", _ROW, sql.or_(*bounds)
    large = ~row.reward.between(-LARGEST_REWARD, LARGEST_REWARD)
    yield "have rewards that are infinite or too large", _ROW, large
    withdrawn = row.loss.is_(None)
    more = (row.which != 0) | row.reward.is_not(None) | row.reason.is_(None)
    yield "are withdrawals with a loss, a reward or no reason", _ROW, withdrawn & more
    yield "have a reason, but are no withdrawals", _ROW, ~withdrawn & row.reason.is_not(None)
    yield "are of actions that are withdrawn and observed", _SAME_ACTION, withdrawn
    twice = row.reward.is_not(None) & _OTHER.c.reward.is_not(None)
    yield (
        "are second rewards of the same action",
        _SAME_ACTION,
        twice & (row.which > _OTHER.c.which),
    )
