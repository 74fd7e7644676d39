"""Whether the alarms of the monitors follow from the rows: they are raised again, and compared.

What is compared is which loss or context raised an alarm, and from which on its evidence grew. With
several lanes the order in which these arrived is not known, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sqlalchemy as sql

from tether.rounds.contexts_seen import SHIFT, read_scores, start_monitor
from tether.rounds.losses_seen import RISK, LossesSeen, of_loss
from tether.rounds.replayed_monitors import Numbers, last_rows, monitor_events
from tether.rounds.run_settings import RunSettings
from tether.rounds.store import schema
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS
from tether.rounds.verify_kept import recomputed_monitors


def find_wrong_alarms(connection: sql.Connection, settings: RunSettings) -> Iterator[str]:
    """The alarms of monitors that say another thing than the rows before them."""
    table, lanes = schema.alarms, read_lanes(connection)
    query = sql.select(table.c.number, table.c.monitor, table.c.message)
    alarms = {row.number: row for row in connection.execute(query)}
    restart: Numbers = {}
    for event in monitor_events(connection):
        if event.restart:
            restart = event.entries
        if event.alarm is None:
            continue
        alarm = alarms[event.alarm]
        told: list[str] | None = None
        if alarm.monitor == RISK and sum(each.last_observation > 0 for each in lanes.values()) <= 1:
            after, to = _reached(connection, OBSERVATIONS, restart, event.entries)
            told = _risk_alarms(LossesSeen(connection, settings, anew=True), after, to)
        elif alarm.monitor == SHIFT and sum(each.last_action > 0 for each in lanes.values()) <= 1:
            after, to = _reached(connection, ACTIONS, restart, event.entries)
            told = _shift_alarms(connection, settings, after, to)
        if told is not None and not alarm.message.startswith(tuple(told)):
            yield (
                f"alarm {alarm.number} of the {alarm.monitor} monitor does not follow from what "
                f"it had seen"
            )


def _reached(
    connection: sql.Connection, kind: str, restart: Numbers, entries: Numbers
) -> tuple[Numbers, Numbers]:
    """The last row of each lane when the monitors began, and when an alarm was raised."""
    return last_rows(connection, kind, restart), last_rows(connection, kind, entries)


def _risk_alarms(losses: LossesSeen, after: Mapping[int, int], to: Mapping[int, int]) -> list[str]:
    """How the messages begin of the alarms that risk monitors had cause to raise."""
    monitors = recomputed_monitors(losses, after, to)
    found = [(name, monitor.status) for (_, name), monitor in monitors.items()]
    return [of_loss(name, each.evidence("loss")) for name, each in found if each.alarm]


def _shift_alarms(
    connection: sql.Connection,
    settings: RunSettings,
    after: Mapping[int, int],
    to: Mapping[int, int],
) -> list[str]:
    """How the message begins of the alarm that the shift monitor had cause to raise."""
    begin, end = ({str(lane): last for lane, last in each.items()} for each in (after, to))
    monitor = start_monitor(settings, begin, read_scores(connection, begin, end))
    if monitor is None or not monitor.status.alarm:
        return []
    return [monitor.status.evidence("score")]
