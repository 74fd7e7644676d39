"""Whether the steps of a release follow from its rows: they are computed again, and compared.

The counts come from queries of their own, and not from the reader that the release itself uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sql

from tether.release.assignment import is_new, positions
from tether.release.calibration_window import window_name
from tether.release.ramp_result import RampShare
from tether.rounds.policy_registry import SAFE
from tether.rounds.releases.arm_rows import Arm, ArmRows
from tether.rounds.releases.key_rows import NEW, OLD, find_repeated_keys
from tether.rounds.releases.next_step import next_step
from tether.rounds.releases.recounted_rows import add_rows
from tether.rounds.releases.release_settings import ReleaseSettings
from tether.rounds.releases.step import Seen, Step
from tether.rounds.releases.unstored_answers import find_wrong_unstored
from tether.rounds.releases.verify_seen import find_wrong_seen
from tether.rounds.releases.verify_words import find_wrong_columns, find_wrong_words
from tether.rounds.replayed_monitors import resumptions
from tether.rounds.store import schema
from tether.rounds.store.lanes import CONTROL_LANE
from tether.rounds.store.queries import read_all
from tether.rounds.store.table_pages import read_pages
from tether.rounds.store.writer import record_kind

STEP_SHARE_TOLERANCE = 1e-9
"""By how much numbers may differ whose losses were added in another order."""
CHOSEN_AMONG_TIES = ("binding", "reason")
"""What rounding may decide where guardrails tie, or where the old system is at alpha; compared with
the numbers that were stored with it, by `find_wrong_words`."""


@dataclass
class StepAlarms:
    """What stood when a step began, and whether anything was raised until the next one."""

    standing: int | None
    cleared: int
    raised_during: bool = False


def find_wrong_steps(connection: sql.Connection, stored: Mapping[str, Any]) -> Iterator[str]:
    """What does not follow: shares from rows, systems from shares, and keys that are there twice.

    `stored` are the settings; the hash chain has been checked.
    """
    settings = ReleaseSettings.from_dict(stored)
    table = read_all(connection, schema.rounds)
    steps = [Step.from_row(row) for row in table]
    alarms = alarms_by_step(connection)
    for row, step in zip(table, steps, strict=True):
        yield from find_wrong_columns(row, step)
    rows, previous = ArmRows(list(settings.limits)), None
    for step in steps:
        before: Seen = {} if previous is None else previous.seen
        add_rows(connection, rows, ("round", "served"), _arm, after=before, to=step.seen)
        at_begin = alarms[step.number]
        expected = next_step(
            settings,
            rows,
            previous,
            alarm=at_begin.standing,
            cleared=at_begin.cleared,
            seen=step.seen,
            begun=step.begun,
        )
        if not steps_agree(step, expected):
            yield (
                f"step {step.number}: its share is {step.share!r} from {_window(step)}, but the "
                f"rows that it saw give {expected.share!r} from {_window(expected)}"
            )
        elif not terms_agree(step.ramp_share, expected.ramp_share):
            yield wrong_terms(f"step {step.number}", step.ramp_share, expected.ramp_share)
        else:
            stops = None if at_begin.standing is None else expected.ramp_share.reason
            yield from find_wrong_words(f"step {step.number}", step.ramp_share, stops)
        if previous is not None:
            yield from find_wrong_length(settings, previous, step)
        previous = step
    yield from find_wrong_seen(connection, {each.number: each.seen for each in steps})
    yield from _find_wrong_systems(
        connection, settings, {each.number: each for each in steps}, alarms
    )
    yield from find_repeated_keys(connection)
    yield from find_wrong_unstored(connection)


def find_wrong_length(settings: ReleaseSettings, step: Step, following: Step) -> Iterator[str]:
    """A step that ended before its keys had come, or its time was over."""
    ends_by_itself = settings.confidence is None and not (
        following.cleared > step.cleared and not step.collects_old_rows(settings)
    )
    if not ends_by_itself:
        return
    rows = following.rows_before - step.rows_before
    if settings.keys_per_step is not None and rows < settings.keys_per_step:
        yield f"step {step.number} ended after {rows} of its {settings.keys_per_step} keys"
    if settings.step_seconds is not None:
        passed = datetime.fromisoformat(following.begun) - datetime.fromisoformat(step.begun)
        if passed.total_seconds() < settings.step_seconds:
            yield (
                f"step {step.number} began at {step.begun} and the next one at {following.begun}, "
                f"before its {settings.step_seconds:g} seconds were over"
            )
        if step.rows_lacking(settings, following.rows_before):
            yield (
                f"step {step.number} ended after {rows} keys of the old system, and needs at least "
                f"{settings.least_first_rows}"
            )


def _arm(step: int, served: int) -> Arm:
    return Arm(step, served != SAFE)


def _window(step: Step) -> str:
    return window_name("step", step.window_from, step.window)


def steps_agree(step: Step, expected: Step) -> bool:
    """Whether a step is the expected one, up to rounding."""
    same = ("window", "window_from", "ramp", "cleared")
    return is_same_number(step.share, expected.share) and all(
        getattr(step, name) == getattr(expected, name) for name in same
    )


def is_same_number(one: float, other: float) -> bool:
    """Whether two numbers differ by rounding alone; near 0 what was subtracted decides."""
    tolerance = STEP_SHARE_TOLERANCE
    return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)


def terms_agree(share: RampShare, expected: RampShare) -> bool:
    """Whether the counts, bounds and promises that a share was stored with are the expected.

    Where rounding decides whether a share is 0, nothing is promised, or hardly anything is served.
    """
    if (share.share == 0) != (expected.share == 0):
        return True
    ours, theirs = (
        {name: each for name, each in found.to_dict().items() if name not in CHOSEN_AMONG_TIES}
        for found in (share, expected)
    )
    return _is_same(ours, theirs)


def wrong_terms(name: str, share: RampShare, expected: RampShare) -> str:
    """What to say of a step whose share is right, and what was stored with it is not."""
    return (
        f"{name}: its share is stored with other counts, bounds or promises than the rows that it "
        f"saw give: it promises {share.promises}, and they give {expected.promises}"
    )


def _is_same(one: Any, other: Any) -> bool:
    """Whether two contents of a record are the same up to rounding."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return is_same_number(one, other)
    return bool(one == other)


def alarms_by_step(connection: sql.Connection) -> dict[int, StepAlarms]:
    """What the order of the control lane says about alarms and steps."""
    entry, audit = schema.entries, schema.audit
    kinds = {each: record_kind(each) for each in (schema.rounds, schema.alarms, audit)}
    clears = resumptions(connection)
    query = sql.select(entry.c.kind, entry.c.first).where(
        entry.c.lane == CONTROL_LANE, entry.c.kind.in_(kinds.values())
    )
    found: dict[int, StepAlarms] = {}
    raised: list[int] = []
    cleared, latest = 0, 0
    for kind, number in connection.execute(query.order_by(entry.c.number)).fetchall():
        if kind == kinds[schema.alarms]:
            raised.append(number)
            if latest:
                found[latest].raised_during = True
        elif kind == kinds[audit]:
            cleared = max(cleared, clears.get(number, 0))
        else:
            standing = min((each for each in raised if each > cleared), default=None)
            found[number], latest = StepAlarms(standing, cleared), number
    return found


def _find_wrong_systems(
    connection: sql.Connection,
    settings: ReleaseSettings,
    steps: Mapping[int, Step],
    alarms: Mapping[int, StepAlarms],
) -> Iterator[str]:
    """Keys that another system answered than the one that their hash and the share say."""
    table = schema.actions
    columns = {name: table.c[name] for name in ("id", "round", "served", "context", "action")}
    for page in read_pages(connection, columns, table, [table.c.id]):
        places = positions([row["context"] for row in page], settings.salt_bytes)
        numbers = np.array([row["round"] for row in page])
        expected = np.zeros(len(page), bool)
        for number in np.unique(numbers).tolist():
            mine = numbers == number
            expected[mine] = is_new(places[mine], steps[number].share)
        for row, by_new in zip(page, expected.tolist(), strict=True):
            system = OLD if row["served"] == SAFE else NEW
            may_be_old = not by_new or alarms[row["round"]].raised_during
            is_right = may_be_old if system == OLD else by_new and row["served"] == row["round"]
            if not is_right or row["action"] != system.encode():
                yield (
                    f"row {row['id']}: key {row['context'].decode()!r} was answered by "
                    f"{row['action'].decode()!r}, which its hash and the share of step "
                    f"{row['round']} do not say"
                )
                return
