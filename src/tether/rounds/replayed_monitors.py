"""The state of the monitors, computed again from the rows of a run.

The hash chain says in which order things happened: an entry of the control lane holds the heads
that all other lanes had when it was written. So the monitors see the losses that they saw, and
begin anew where an alarm was cleared. With several lanes, the order of losses that were written at
the same time in different lanes is not known; a monitor is valid in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import sqlalchemy as sql

from tether.rounds.contexts_seen import SHIFT, ContextsSeen
from tether.rounds.kept import Kept
from tether.rounds.losses_seen import LossesSeen
from tether.rounds.run_settings import RunSettings
from tether.rounds.silence import taken, write_silence
from tether.rounds.store import queries, schema
from tether.rounds.store.lanes import CONTROL_LANE, first_id, read_lanes
from tether.rounds.store.serving import RESUME
from tether.rounds.store.writer import ACTIONS, OBSERVATIONS, record_kind

MAX_REPLAYED_CALLS = 20_000
"""The monitors see the losses of each call of `observe` by themselves, unless there are more."""
MAX_ROWS_PER_STEP = 50_000
"""How many losses the monitors see at a time, which bounds the memory."""

Numbers = dict[int, int]
"""A number for each lane."""


class Event(NamedTuple):
    """A change of what the monitors do, and the last entry of each lane before it.

    `alarm` is the number of the alarm that it is; None if it is something else.
    """

    watch: bool
    restart: bool
    is_sign_of_life: bool
    entries: Numbers
    alarm: int | None = None


def recompute_kept(connection: sql.Connection, settings: RunSettings) -> None:
    """Store the state that the monitors have after all rows of a run without any state."""
    losses, contexts = LossesSeen(connection, settings), ContextsSeen(settings)
    lanes = read_lanes(connection)
    end = Event(True, False, False, {n: lane.last_entry for n, lane in lanes.items() if n >= 0})
    watch, last_sign = True, None
    scored = sql.select(schema.actions.c.id).where(schema.actions.c.context_score.is_not(None))
    has_scores = connection.execute(scored.limit(1)).first() is not None
    for event in (*monitor_events(connection, settings), end):
        for to in _steps(connection, losses, event.entries):
            losses.update(watch=watch, to=to)
        losses.save()
        actions = last_rows(connection, ACTIONS, event.entries)
        if watch and has_scores:
            for to in _context_steps(Kept(connection)[SHIFT], actions):
                contexts.update(connection, to)
        if event.restart:
            losses.restart()
            losses.save()
            contexts.restart(connection, actions)
        if event.is_sign_of_life:
            last_sign = event
        watch = event.watch
    if last_sign is not None:
        _restore_silence(connection, settings, last_sign)


def find_restart(connection: sql.Connection, kind: str = ACTIONS) -> Numbers | None:
    """The last row of each lane when the monitors last began anew; None if they never did."""
    restarts = [event for event in monitor_events(connection) if event.restart]
    return last_rows(connection, kind, restarts[-1].entries) if restarts else None


def find_last_sign(connection: sql.Connection, settings: RunSettings) -> Numbers | None:
    """The last entry of each lane at the last round or resumption; None if there is none."""
    signs = [event for event in monitor_events(connection, settings) if event.is_sign_of_life]
    return signs[-1].entries if signs else None


def monitor_events(
    connection: sql.Connection, settings: RunSettings | None = None
) -> Iterator[Event]:
    """Rounds, alarms and resumptions in order.

    Silence counts anew from the beginning of a round, but in a ramp only from the first: the others
    may begin by themselves.
    """
    entry = schema.entries
    kinds = [record_kind(table) for table in (schema.rounds, schema.alarms, schema.audit)]
    query = sql.select(entry.c.kind, entry.c.first, entry.c.heads)
    query = query.where(entry.c.lane == CONTROL_LANE, entry.c.kind.in_(kinds))
    cleared = resumptions(connection)
    last_alarm = last_cleared = 0
    for kind, number, heads in connection.execute(query.order_by(entry.c.number)).fetchall():
        resumes = kind == kinds[2] and number in cleared
        if kind == kinds[1]:
            last_alarm = number
        elif resumes:
            last_cleared = max(last_cleared, cleared[number])
        elif kind != kinds[0]:
            continue
        reached = {int(lane): place[0] for lane, place in json.loads(heads).items()}
        entries = {lane: last for lane, last in reached.items() if lane >= 0}
        begins = kind == kinds[0] and (settings is None or not settings.is_ramp or number == 1)
        signs = resumes or begins
        alarm = number if kind == kinds[1] else None
        yield Event(last_alarm <= last_cleared, resumes, signs, entries, alarm)


def resumptions(connection: sql.Connection) -> Numbers:
    """The audit records that clear alarms, each with the last alarm that it clears."""
    table = schema.audit
    query = sql.select(table.c.number, table.c.subject).where(table.c.act == RESUME)
    return {number: subject or 0 for number, subject in connection.execute(query)}


def _steps(connection: sql.Connection, losses: LossesSeen, entries: Numbers) -> Iterator[Numbers]:
    """How far to read the losses of each lane, step by step, up to some entries."""
    table, last = schema.entries, last_rows(connection, OBSERVATIONS, entries)
    is_observation = (table.c.kind == OBSERVATIONS, table.c.lane >= 0)
    counts = sql.select(sql.func.count(), sql.func.sum(table.c.last - table.c.first + 1))
    calls, rows = connection.execute(counts.where(*is_observation)).one()
    smallest = 1 if calls <= MAX_REPLAYED_CALLS else -(-rows // MAX_REPLAYED_CALLS)
    for lane, final in last.items():
        seen = losses.seen.get(str(lane), 0)
        while seen < final:
            reaching = sql.select(sql.func.min(table.c.last)).where(
                *is_observation, table.c.lane == lane, table.c.last >= seen + smallest
            )
            found = connection.scalar(reaching)
            seen = min(final if found is None else int(found), final, seen + MAX_ROWS_PER_STEP)
            yield {**{int(each): number for each, number in losses.seen.items()}, lane: seen}


def _context_steps(state: str | None, actions: Numbers) -> Iterator[Numbers]:
    """How far to read the contexts of each lane, step by step, up to some actions."""
    reached = {int(lane): last for lane, last in (json.loads(state)[1] if state else {}).items()}
    for lane, final in actions.items():
        while reached.get(lane, 0) < final:
            reached[lane] = min(reached.get(lane, 0) + MAX_ROWS_PER_STEP, final)
            yield dict(reached)


def last_rows(connection: sql.Connection, kind: str, entries: Numbers) -> Numbers:
    """The last actions or observations of each lane, up to some entries."""
    table, found = schema.entries, {}
    for lane, entry in entries.items():
        last = sql.select(sql.func.max(table.c.last)).where(
            table.c.lane == lane, table.c.kind == kind, table.c.number <= entry
        )
        found[lane] = int(connection.scalar(last) or 0)
    return found


def _restore_silence(connection: sql.Connection, settings: RunSettings, sign: Event) -> None:
    """Continue to count actions without a loss; the time without one begins anew.

    They count from the last of these losses, or the beginning of the round. Actions of other lanes
    count as taken before that loss.
    """
    lanes = {n: lane for n, lane in read_lanes(connection).items() if n >= 0}
    at_sign = sum(last_rows(connection, ACTIONS, sign.entries).values())
    total = taken(lanes)
    last, moment = {}, queries.now()
    for which, name in enumerate(settings.limits):
        counted = at_sign
        for number, lane in lanes.items():
            entry = last_entry_with(connection, number, which, lane.last_observation)
            if entry > sign.entries.get(number, 0):
                before = last_rows(connection, ACTIONS, {number: entry})[number]
                counted = max(counted, total - lane.last_action + before)
        last[name] = (counted, moment)
    kept = Kept(connection)
    write_silence(kept, last)
    kept.save()


def last_entry_with(connection: sql.Connection, lane: int, which: int, seen: int) -> int:
    """The last entry of a lane that has one of the losses among the first `seen`; 0 if none has."""
    table, entry, start = schema.observations, schema.entries, first_id(lane)
    latest = sql.select(table.c.number).where(
        table.c.which == which,
        table.c.loss.is_not(None),
        table.c.number.between(start + 1, start + seen),
    )
    number = connection.scalar(latest.order_by(table.c.number.desc()).limit(1))
    if number is None:
        return 0
    place = number - start
    within = (entry.c.lane == lane, entry.c.kind == OBSERVATIONS, entry.c.last >= place)
    return int(connection.scalar(sql.select(sql.func.min(entry.c.number)).where(*within)) or 0)
