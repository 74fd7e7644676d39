"""Which rows the share of a step of a ramp is computed from, and against which policy."""

from __future__ import annotations

import pytest

import tether
from tests.rounds.ramps.ramp_model import AlwaysTakes
from tether.release import ArmCounts, ramp_share
from tether.rounds.ramps import next_ramp_step as next_step_module
from tether.rounds.ramps.next_ramp_step import next_ramp_step
from tether.rounds.ramps.policy_rows import RowGroup
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.releases.grouped_counts import GroupedCounts

NOW = "2026-01-01T00:00:00+00:00"


def settings_with(**given):
    arguments = {"alpha": 0.1, "store": "sqlite://", "family": "ramp"} | given
    with tether.Controller(AlwaysTakes(0), **arguments) as run:
        return run.settings


def rows_with(groups):
    """Rows such as {(round, served, calibration): (count, total)}."""
    rows = GroupedCounts[RowGroup](["loss"])
    for group, (count, total) in groups.items():
        rows.rows[RowGroup(*group)] = rows.known[RowGroup(*group), "loss"] = count
        rows.totals[RowGroup(*group), "loss"] = total
    return rows


def safe_round(number):
    return RampRecord(number, 0, number, None)


def follow(settings, rows, records, *, begins=False, alarm=None, cleared=0):
    return next_ramp_step(
        settings, rows, records, begins=begins, alarm=alarm, cleared=cleared, seen={}, begun=NOW
    )


def share_of(old, new, settings):
    return ramp_share(
        settings.guardrails,
        old={"loss": ArmCounts(*old)},
        new={"loss": ArmCounts(*new)},
        confidence=settings.confidence,
    ).share


def test_the_reference_has_calibration_rows_of_the_last_safe_rounds_alone():
    settings = settings_with()
    rows = rows_with(
        {
            (1, 0, True): (1000, 0.0),
            (2, 0, True): (40, 1.0),
            (2, 2, True): (9, 0.0),
            (3, 0, True): (50, 1.0),
            (3, 0, False): (70, 0.0),
            (4, 0, True): (60, 2.0),
        }
    )
    ramp = follow(settings, rows, [safe_round(1)], begins=True)
    found = follow(settings, rows, [safe_round(1), ramp, safe_round(3), safe_round(4)], begins=True)
    assert found.share == share_of((110, 3.0), (0, 0.0), settings)
    assert ramp.share == share_of((1000, 0.0), (0, 0.0), settings)


def test_the_new_policy_has_training_rows_too_of_one_step():
    settings = settings_with()
    rows = rows_with(
        {
            (1, 0, True): (500, 10.0),
            (2, 2, False): (30, 1.0),
            (2, 2, True): (30, 2.0),
            (2, 0, True): (300, 300.0),
            (3, 3, True): (40, 0.0),
        }
    )
    records = [safe_round(1)]
    records.append(follow(settings, rows, records, begins=True))
    records.append(follow(settings, rows, records))
    assert records[-1].share == share_of((500, 10.0), (60, 3.0), settings)
    records.append(follow(settings, rows, records))
    assert records[-1].share == share_of((500, 10.0), (40, 0.0), settings)
    assert [each.first for each in records] == [1, 2, 2, 2]


def whole_share(settings, rows):
    """Rounds in which a policy reaches a share of 1 in round 3, and keeps it."""
    records = [safe_round(1)]
    records.append(follow(settings, rows, records, begins=True))
    for _ in range(2):
        records.append(follow(settings, rows, records))
    assert [each.share for each in records[2:]] == [1.0, 1.0]
    return records


REACHED = {
    (1, 0, True): (500, 10.0),
    (2, 2, True): (100, 0.0),
    (3, 3, True): (200, 4.0),
    (3, 3, False): (200, 150.0),
    (4, 4, True): (300, 0.0),
}


def test_a_policy_that_reached_a_share_of_1_is_the_reference_with_fresh_rows():
    few_harms = REACHED | {(3, 3, False): (200, 0.0)}
    for against, reference in (("safe", 0), ("last", 3)):
        settings, rows = settings_with(against=against), rows_with(few_harms)
        records = whole_share(settings, rows)
        found = follow(settings, rows, records, begins=True)
        assert found.reference == reference
        old = (200, 4.0) if reference else (500, 10.0)
        assert found.share == share_of(old, (0, 0.0), settings)
        assert follow(settings, rows, [*records, found]).reference == reference


def test_the_reference_is_the_safe_policy_after_an_alarm_a_safe_round_or_with_too_few_rows():
    settings = settings_with(against="last")
    rows = rows_with(REACHED | {(3, 3, False): (200, 0.0)})
    records = whole_share(settings, rows)
    assert follow(settings, rows, records, begins=True, cleared=1).reference == 0
    assert follow(settings, rows, [*records, safe_round(5)], begins=True).reference == 0
    for count, reference in ((8, 0), (9, 0), (10, 3)):
        few = rows_with(REACHED | {(3, 3, False): (200, 0.0), (3, 3, True): (count, 0.0)})
        assert follow(settings, few, records, begins=True).reference == reference


def two_references(settings, of_the_last, of_the_one_before):
    """Rounds in which two policies reach a share of 1, in rounds 3 and 6, and their rows."""
    groups = {(1, 0, True): (500, 10.0), (2, 2, True): (100, 0.0), (3, 3, True): (200, 0.0)}
    groups |= {(5, 5, True): (100, 0.0), (6, 6, True): (200, 0.0)}
    records = [safe_round(1)]
    for begins in (True, False, False, True, False, False):
        records.append(follow(settings, rows_with(groups), records, begins=begins))
    assert [each.share == 1 for each in records[1:]] == [False, True, True] * 2
    return records, rows_with(groups | {(3, 3, True): of_the_one_before, (6, 6, True): of_the_last})


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_a_reference_that_does_not_pass_leaves_room_for_the_one_before(confidence):
    many, few = (2000, 10.0), (2000, 1500.0)
    settings = settings_with(against="last")
    for last, before, reference in ((many, few, 6), (few, many, 3), (few, few, 0)):
        records, rows = two_references(settings, last, before)
        asked = settings_with(against="last", confidence=confidence)
        assert follow(asked, rows, records, begins=True).reference == reference


def test_the_order_in_which_losses_are_added_does_not_decide_the_reference():
    settings = settings_with(against="last")
    for total in (0.8, 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1):  # alpha is 1.8 / 18
        records, rows = two_references(settings, (17, total), (200, 1.0))
        assert follow(settings, rows, records, begins=True).reference == 3


def test_each_policy_is_asked_once_whether_it_passes(monkeypatch):
    asked = []
    right = next_step_module._first_share
    monkeypatch.setattr(
        next_step_module, "_first_share", lambda *each: asked.append(each[-1]) or right(*each)
    )
    settings = settings_with(against="last")
    records, rows = two_references(settings, (200, 150.0), (200, 150.0))
    assert follow(settings, rows, records, begins=True).reference == 0
    assert asked[-2:] == [6, 3]
    assert asked.count(6) == 1


def test_the_share_is_0_while_an_alarm_stands_and_then_the_ramp_begins_anew():
    settings, rows = settings_with(), rows_with(REACHED)
    records = [safe_round(1)]
    records.append(follow(settings, rows, records, begins=True))
    records.append(follow(settings, rows, records, alarm=1))
    assert records[-1].share == 0
    assert (
        records[-1].step.ramp_share.reason
        == "alarm 1 stood when the round began: the safe policy serves"
    )
    again = follow(settings, rows, records, cleared=1)
    assert (again.share, again.step.ramp, again.first) == (records[1].share, 4, 2)


def test_a_reference_that_does_not_pass_leaves_everything_to_the_safe_policy():
    settings, rows = settings_with(), rows_with({(1, 0, True): (20, 10.0)})
    found = follow(settings, rows, [safe_round(1)], begins=True)
    assert found.share == 0
    reason = found.step.ramp_share.reason
    assert reason.startswith("the reference policy alone does not pass for loss")
    assert reason.endswith("; the safe policy serves")


def test_with_a_confidence_all_rows_of_both_policies_count():
    settings = settings_with(confidence=0.9, against="last")
    rows = rows_with(
        {
            (1, 0, True): (500, 5.0),
            (1, 0, False): (500, 5.0),
            (2, 2, False): (300, 0.0),
            (2, 0, False): (50, 1.0),
            (3, 3, True): (400, 1.0),
        }
    )
    records = [safe_round(1)]
    records.append(follow(settings, rows, records, begins=True))
    records.append(follow(settings, rows, records))
    assert records[-1].share == pytest.approx(share_of((1050, 11.0), (700, 1.0), settings))
    assert records[-1].share == 1
    rows.rows[RowGroup(4, 3, False)] = rows.known[RowGroup(4, 3, False), "loss"] = 60
    later = follow(settings, rows, records, begins=True)
    assert later.reference == 3
    records.append(later)
    again = follow(settings, rows, records)
    assert again.share == pytest.approx(share_of((760, 1.0), (0, 0.0), settings))
