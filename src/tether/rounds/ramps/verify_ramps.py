"""Whether the steps of a ramp of policies follow from its rows: they are computed again.

The counts come from queries of their own, and not from the reader that the run itself uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sql

from tether.release.ramp_calibration import reason_of_zero
from tether.rounds.policy_registry import SAFE
from tether.rounds.ramps.next_ramp_step import next_ramp_step, reason_in_a_ramp
from tether.rounds.ramps.policy_rows import PolicyRows, RowGroup
from tether.rounds.ramps.ramp_record import ABOUT_POLICY, RampRecord, read_ramp_records
from tether.rounds.releases.grouped_counts import GroupedCounts
from tether.rounds.releases.recounted_rows import add_rows
from tether.rounds.releases.step import Seen, Step
from tether.rounds.releases.verify_seen import find_wrong_seen
from tether.rounds.releases.verify_steps import (
    alarms_by_step,
    steps_agree,
    terms_agree,
    wrong_terms,
)
from tether.rounds.releases.verify_words import find_wrong_time, find_wrong_words
from tether.rounds.settings import Settings
from tether.rounds.store import schema
from tether.rounds.store.queries import read_all


def find_wrong_ramps(connection: sql.Connection, stored: Mapping[str, Any]) -> Iterator[str]:
    """What does not follow: shares from rows, and who answered from shares.

    `stored` are the settings; the hash chain has been checked.
    """
    settings = Settings.from_dict(stored)
    records, alarms = read_ramp_records(connection), alarms_by_step(connection)
    policies = _policies(connection)
    rows: PolicyRows = GroupedCounts(list(settings.limits))
    before: Seen = {}
    for k, record in enumerate(records):
        step = record.step
        if (step is None) != (policies[record.number]["policy"] is None):
            yield f"round {record.number} must have both a policy and a share, or neither"
        if step is None:
            continue
        add_rows(connection, rows, RowGroup._fields, _group, after=before, to=step.seen)
        before = step.seen
        begins = record.first == record.number
        if not begins and (k == 0 or not _continues(record, records[k - 1], policies)):
            yield f"round {record.number} continues a ramp that the round before is no part of"
            continue
        at_begin = alarms[record.number]
        expected = next_ramp_step(
            settings,
            rows,
            records[:k],
            begins=begins,
            alarm=at_begin.standing,
            cleared=at_begin.cleared,
            seen=step.seen,
            begun=step.begun,
        )
        if not _agree(record, step, expected):
            yield (
                f"round {record.number}: its share is {record.share!r} from round {step.window} "
                f"against round {record.reference}, but the rows that it saw give "
                f"{expected.share!r} from round {expected.step.window if expected.step else 0} "
                f"against round {expected.reference}"
            )
        elif expected.step is not None and not terms_agree(
            step.ramp_share, expected.step.ramp_share
        ):
            yield wrong_terms(f"round {record.number}", step.ramp_share, expected.step.ramp_share)
        elif expected.step is not None:
            yield from _find_wrong_words(record.number, step, expected.step, at_begin.standing)
    steps = {each.number: each.step.seen for each in records if each.step}
    yield from find_wrong_seen(connection, steps)
    yield from _find_wrong_answers(connection, {each.number: each for each in records})


def _continues(
    record: RampRecord, previous: RampRecord, policies: Mapping[int, Mapping[str, Any]]
) -> bool:
    is_same = policies[record.number] == policies[previous.number]
    return previous.step is not None and previous.first == record.first and is_same


def _find_wrong_words(
    number: int, step: Step, expected: Step, standing: int | None
) -> Iterator[str]:
    """A binding loss, a reason or a moment that is not what such a step has."""
    share = step.ramp_share
    stops = expected.ramp_share.reason
    if standing is None and share.share == 0:
        stops = reason_of_zero(share.guardrails, share.confidence)
        stops = reason_in_a_ramp(stops, is_halted=False)
    yield from find_wrong_words(f"round {number}", share, stops if share.share == 0 else None)
    yield from find_wrong_time(f"round {number}", step.begun)


def _agree(record: RampRecord, step: Step, expected: RampRecord) -> bool:
    if expected.step is None or record.reference != expected.reference:
        return False
    return steps_agree(step, expected.step)


def _policies(connection: sql.Connection) -> dict[int, dict[str, Any]]:
    """What each round says about its policy."""
    return {
        row["number"]: {name: row[name] for name in ABOUT_POLICY}
        for row in read_all(connection, schema.rounds)
    }


def _group(number: int, served: int, calibration: bool) -> RowGroup:
    return RowGroup(number, served, bool(calibration))


def _find_wrong_answers(
    connection: sql.Connection, records: Mapping[int, RampRecord]
) -> Iterator[str]:
    """Rows that were answered by a policy that had no share in their round."""
    table = schema.actions
    query = sql.select(table.c.round, table.c.served, sql.func.count())
    for number, served, count in connection.execute(query.group_by(table.c.round, table.c.served)):
        record = records.get(number)
        allowed = {SAFE}
        if record is not None and record.share > 0:
            allowed |= {number, record.reference}
        if served not in allowed:
            yield (
                f"{count:,} actions of round {number} were answered by the policy of round "
                f"{served}, which has no share in it"
            )
