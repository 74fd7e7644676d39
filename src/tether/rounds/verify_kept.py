"""Whether the state of the monitors follows from the rows: it is computed again, and compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

import sqlalchemy as sql

from tether.monitor import RiskMonitor
from tether.rounds.contexts_seen import SHIFT
from tether.rounds.kept import Kept
from tether.rounds.kept_sums import Sums
from tether.rounds.losses_seen import SAFE_SUMS, SEEN, LossesSeen, monitored_policies
from tether.rounds.replayed_monitors import find_restart
from tether.rounds.run_settings import RunSettings
from tether.rounds.silence import SILENCE
from tether.rounds.store import schema
from tether.rounds.store.lanes import read_lanes
from tether.rounds.store.serving import read_serving
from tether.rounds.store.writer import OBSERVATIONS
from tether.rounds.verify_silence import find_wrong_silence

RELATIVE_TOLERANCE = 1e-9
"""Sums of the same numbers in another order differ by rounding."""

_SETTINGS = ("alpha", "bound", "false_alarm_probability")


def find_wrong_sums(connection: sql.Connection, settings: RunSettings) -> Iterator[str]:
    """What is kept of losses and rewards but does not follow from the rows.

    Observations that wait to be added to the sums are left out.
    """
    numbers = list(connection.scalars(sql.select(schema.rounds.c.number)))
    written = {SEEN, SAFE_SUMS, SILENCE, SHIFT, *(f"round {number}" for number in numbers)}
    kept = LossesSeen(connection, settings)
    written |= {f"{part} {number}" for part in kept.parts for number in numbers}
    for name in sorted(set(connection.scalars(sql.select(schema.kept.c.name))) - written):
        yield f"the state of the monitors has {name!r}, which tether does not write"
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
    yield from find_wrong_silence(connection, settings, to)
    in_order = len(fresh.seen) <= 1
    for number in (None, *numbers):
        name = "the safe policy" if number is None else f"round {number}"
        known = set(kept.sums(number).losses) <= set(settings.limits)
        if not known or not _agree(kept.sums(number), fresh.sums(number), in_order):
            yield f"the sums of losses and rewards of {name} do not follow from its rows"
    for part, of in kept.parts.items():
        for number in numbers:
            if not _agree(kept.sums(number, part), fresh.sums(number, part), in_order):
                yield f"the sums of {of} {number} do not follow from its rows"
    yield from _find_wrong_monitors(connection, settings, kept, numbers, to, in_order)


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
    in_order: bool,
) -> Iterator[str]:
    """Risk monitors that are not where the losses since the last restart bring them."""
    fresh = LossesSeen(connection, settings, anew=True)
    restart = find_restart(connection, OBSERVATIONS) or {}
    for lane, last in restart.items():
        if to.get(lane, 0) < last:
            yield f"the monitors have seen fewer losses of lane {lane} than when they restarted"
            return
    monitors = recomputed_monitors(fresh, restart, to)
    alarm_stands = read_serving(connection).alarm is not None
    for number in numbers:
        for name in settings.limits:
            ours, theirs = kept.sums(number).losses[name].risk, monitors.get((number, name))
            if not _same(ours, theirs, alarm_stands, in_order):
                yield f"the risk monitor of round {number} does not follow from its losses"


def recomputed_monitors(
    losses: LossesSeen, after: Mapping[int, int], to: Mapping[int, int]
) -> dict[tuple[int, str], RiskMonitor]:
    """The risk monitors by round and loss, after some observations of each lane up to others."""
    losses.seen = {str(lane): last for lane, last in after.items()}
    monitors: dict[tuple[int, str], RiskMonitor] = {}
    for _, columns in losses.new_observations(to):
        for name, part in losses.by_loss(columns):
            for number, log_share in monitored_policies(part):
                if (number, name) not in monitors:
                    monitor = losses.risk_monitor(name, log_share)
                    if monitor is None:
                        continue
                    monitors[number, name] = monitor
                monitors[number, name].update(part["loss"][part["served"] == number])
    return monitors


def _same(
    ours: RiskMonitor | None, theirs: RiskMonitor | None, alarm_stands: bool, in_order: bool
) -> bool:
    """Whether a kept monitor is the recomputed one; while an alarm stands it sees no losses.

    Where the order of the losses is not known, their number and mean are compared alone.
    """
    if ours is None or theirs is None:
        return ours is theirs or (alarm_stands and ours is None)
    if any(getattr(ours, name) != getattr(theirs, name) for name in _SETTINGS):
        return False
    kept, fresh = ours.status, theirs.status
    if in_order and (kept.alarm or fresh.alarm):
        if kept.alarm and kept.lowest_at != fresh.lowest_at:
            return False
        return alarm_stands and kept.alarm_at in (None, fresh.alarm_at)
    if kept.seen != fresh.seen:
        return alarm_stands and kept.seen < fresh.seen
    if in_order and kept.lowest_at != fresh.lowest_at:
        return False
    compared = ["mean", "log_wealth"] if in_order else ["mean"]
    pairs = [(getattr(kept, name), getattr(fresh, name)) for name in compared]
    return all(math.isclose(*pair, rel_tol=1e-9, abs_tol=1e-9) for pair in pairs)
