"""Whether the state of the monitors follows from the rows: it is computed again, and compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import sqlalchemy as sql

from tether.monitor import RiskMonitor
from tether.rounds.kept import Kept
from tether.rounds.kept_sums import Sums
from tether.rounds.losses_seen import SEEN, LossesSeen
from tether.rounds.run_settings import RELEASE_KIND, RunSettings
from tether.rounds.silence import read_silence
from tether.rounds.store import schema
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.serving import RESUME, read_serving
from tether.rounds.store.writer import OBSERVATIONS, record_kind

RELATIVE_TOLERANCE = 1e-9
"""Sums of the same numbers in another order differ by rounding."""


def find_wrong_sums(connection: sql.Connection, settings: RunSettings) -> Iterator[str]:
    """What is kept of losses and rewards but does not follow from the rows.

    Observations that wait to be added to the sums are left out.
    """
    seen = json.loads(Kept(connection)[SEEN] or "{}")
    lanes = read_lanes(connection)
    for name, number in seen.items():
        lane = lanes.get(int(name))
        if lane is None or number > lane.last_observation:
            yield f"the monitors have seen {number} observations of lane {name}: there are fewer"
            return
    to = {int(name): number for name, number in seen.items()}
    fresh = LossesSeen(connection, settings, anew=True)
    fresh.update(watch=False, to=to)
    kept = LossesSeen(connection, settings)
    taken = sum(lane.last_action for lane in lanes.values())
    if any(count > taken for count, _ in read_silence(kept.kept).values()):
        yield "silence is counted from an action that has not been taken"
    in_order = len(fresh.seen) <= 1
    numbers = connection.scalars(sql.select(schema.rounds.c.number)).all()
    for number in (None, *numbers):
        name = "the safe policy" if number is None else f"round {number}"
        if not _agree(kept.sums(number), fresh.sums(number), in_order):
            yield f"the sums of losses and rewards of {name} do not follow from its rows"
    for number in numbers if settings.kind == RELEASE_KIND else ():
        if not _agree(kept.sums(number, old=True), fresh.sums(number, old=True), in_order):
            yield f"the sums of the old system in step {number} do not follow from its rows"
    if in_order:
        yield from _find_wrong_monitors(connection, settings, kept, list(numbers), to)


def _agree(kept: Sums, fresh: Sums, in_order: bool) -> bool:
    if (kept.withdrawn, kept.reward.count) != (fresh.withdrawn, fresh.reward.count):
        return False
    pairs = [(kept.reward.mean, fresh.reward.mean), (kept.reward.squares, fresh.reward.squares)]
    for name in {*kept.losses, *fresh.losses}:
        ours, theirs = kept.losses[name], fresh.losses[name]
        if ours.observed != theirs.observed or (ours.mean is None) != (theirs.mean is None):
            return False
        if ours.mean is not None and theirs.mean is not None:
            own, other = ours.mean.status, theirs.mean.status
            if own.seen != other.seen:
                return False
            pairs.append((own.mean, other.mean))
            if in_order:
                pairs += [(own.lower, other.lower), (own.upper, other.upper)]
    scale = 1 + max(abs(value) for pair in pairs for value in pair)
    return all(math.isclose(*pair, abs_tol=RELATIVE_TOLERANCE * scale) for pair in pairs)


def _find_wrong_monitors(
    connection: sql.Connection,
    settings: RunSettings,
    kept: LossesSeen,
    numbers: list[int],
    to: dict[int, int],
) -> Iterator[str]:
    """Risk monitors that are not where the losses since the last restart bring them."""
    fresh = LossesSeen(connection, settings, anew=True)
    fresh.seen = {lane: _observed_before_restart(connection) for lane in kept.seen}
    monitors: dict[tuple[int, str], RiskMonitor] = {}
    for _, columns in fresh.new_observations(to):
        for name, part in fresh.by_loss(columns):
            for number in numbers:
                mine = part["served"] == number
                monitor = None
                if mine.any():
                    monitor = fresh.risk_monitor(name, float(part["log_beta"][mine][0]))
                if monitor is not None:
                    monitors[number, name] = monitor
                    monitor.update(part["loss"][mine])
    alarm_stands = read_serving(connection).alarm is not None
    for number in numbers:
        for name in settings.limits:
            ours = kept.sums(number).losses[name].risk
            if not _same(ours, monitors.get((number, name)), alarm_stands):
                yield f"the risk monitor of round {number} does not follow from its losses"


def _same(ours: RiskMonitor | None, theirs: RiskMonitor | None, alarm_stands: bool) -> bool:
    """Whether a kept monitor is the recomputed one; while an alarm stands it sees no losses."""
    if ours is None or theirs is None:
        return ours is theirs or (alarm_stands and ours is None)
    kept, fresh = ours.status, theirs.status
    if kept.alarm or fresh.alarm:
        return alarm_stands and kept.alarm_at in (None, fresh.alarm_at)
    if kept.seen != fresh.seen:
        return alarm_stands and kept.seen < fresh.seen
    return math.isclose(kept.log_wealth, fresh.log_wealth, rel_tol=1e-9, abs_tol=1e-9)


def _observed_before_restart(connection: sql.Connection) -> int:
    """How many observations of the only lane there were when the monitors last restarted."""
    entry, audit = schema.entries, schema.audit
    resumed = sql.select(sql.func.max(audit.c.number)).where(audit.c.act == RESUME)
    number = connection.scalar(resumed)
    if number is None:
        return 0
    kind = record_kind(audit)
    heads = sql.select(entry.c.heads).where(entry.c.kind == kind, entry.c.first == number)
    last = json.loads(connection.scalar(heads) or "{}").get("0", [0])[0]
    seen = sql.select(sql.func.max(entry.c.last)).where(
        entry.c.lane == 0, entry.c.kind == OBSERVATIONS, entry.c.number <= last
    )
    return int(connection.scalar(seen) or 0)
