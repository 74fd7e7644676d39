"""The share of the next step: which rows it is computed from."""

from __future__ import annotations

import pytest

from tether.release import ArmCounts, ramp_share
from tether.rounds.limits import Limit
from tether.rounds.releases.arm_rows import Arm, ArmRows
from tether.rounds.releases.next_step import next_step
from tether.rounds.releases.release_settings import ReleaseSettings

LOG = {"harm": {"rows": 1000, "total": 10.0, "pending": 0}}


def settings_with(**changed):
    given = {
        "limits": {"harm": Limit(0.02, 1.0, 0.03)},
        "false_alarm_probability": 0.05,
        "created": "2026-01-01T00:00:00+00:00",
        "salt": "00",
        "log": LOG,
    }
    return ReleaseSettings(**given | changed)


def rows_with(**arms):
    """Rows such as new2=(100, 3.0): a hundred of the new system in step 2, losses of 3 in all."""
    rows = ArmRows(["harm"])
    for name, (count, total, *pending) in arms.items():
        arm = Arm(int(name[3:]), name.startswith("new"))
        rows.rows[arm] = count
        rows.known[arm, "harm"] = count - sum(pending)
        rows.totals[arm, "harm"] = total
    return rows


def follow(settings, rows, previous=None, alarm=None, cleared=0):
    return next_step(
        settings, rows, previous, alarm=alarm, cleared=cleared, seen={}, begun=settings.created
    )


def share_of(settings, old, new):
    return ramp_share(
        settings.guardrails, old={"harm": old}, new={"harm": new}, confidence=settings.confidence
    ).share


def test_the_window_is_the_last_step_unless_it_is_small():
    settings, log = settings_with(), ArmCounts(1000, 10.0)
    rows = rows_with(new1=(10, 0.0), new2=(100, 2.0, 1), new3=(24, 0.0), new4=(25, 1.0))
    first = follow(settings, ArmRows(["harm"]))
    assert (first.number, first.window, first.ramp) == (1, 0, 1)
    assert first.share == share_of(settings, log, ArmCounts(0, 0.0))
    second = follow(settings, rows, first)
    assert second.share == share_of(settings, log, ArmCounts(10, 0.0))
    third = follow(settings, rows, second)
    assert (third.window, third.share) == (2, share_of(settings, log, ArmCounts(100, 2.0, 1)))
    fourth = follow(settings, rows, third)  # 24 rows are less than a quarter of 100
    assert (fourth.window, fourth.share) == (2, third.share)
    fifth = follow(settings, rows, fourth)
    assert (fifth.window_from, fifth.window) == (3, 4)  # 49 of both steps together
    assert fifth.share == share_of(settings, log, ArmCounts(49, 1.0))
    assert fifth.why == "49 rows of steps 3 to 4; limited by 'harm'"


def test_losses_that_arrive_later_do_not_change_a_share_that_stays():
    settings = settings_with()
    third = follow(settings, rows_with(new2=(100, 0.0, 50)), _number(2, follow, settings))
    later = follow(settings, rows_with(new2=(100, 0.0)), third)
    assert (later.window, later.share) == (2, third.share)


def _number(number, follow, settings):
    """A step with that number, of a release without rows."""
    step = None
    for _ in range(number):
        step = follow(settings, ArmRows(["harm"]), step)
    return step


def test_rows_are_used_after_the_wait():
    settings = settings_with(wait=2)
    rows = rows_with(new1=(100, 0.0))
    step = follow(settings, rows)
    windows = []
    for _ in range(3):
        step = follow(settings, rows, step)
        windows.append(step.window)
    assert windows == [0, 0, 1]


def test_without_a_log_the_old_rows_are_those_of_the_first_step_alone():
    settings = settings_with(log=None)
    rows = rows_with(old1=(1000, 10.0, 2), old2=(5000, 0.0))
    first = follow(settings, ArmRows(["harm"]))
    assert first.share == 0
    assert first.ramp_share.reason == "there are no rows of the old system"
    assert first.why == "this step collects rows of the old system; the new one has no keys yet"
    second = follow(settings, rows, first)
    assert second.share == share_of(settings, ArmCounts(1000, 10.0, 2), ArmCounts(0, 0.0)) > 0
    third = follow(settings, rows, second)
    assert third.ramp_share.guardrails["harm"].old == ArmCounts(1000, 10.0, 2)


def test_after_an_alarm_was_cleared_a_ramp_begins_without_a_window():
    settings = settings_with()
    rows = rows_with(new1=(100, 0.0), new2=(100, 0.0), new3=(80, 0.0))
    second = follow(settings, rows, follow(settings, rows))
    third = follow(settings, rows, second, alarm=1)
    assert third.share == 0
    assert third.ramp_share.promises == {"harm": 1.0}
    fourth = follow(settings, rows, third, cleared=1)
    assert (fourth.ramp, fourth.window, fourth.cleared) == (4, 0, 1)
    assert fourth.share == follow(settings, rows).share
    fifth = follow(settings, rows, fourth, cleared=1)
    assert (fifth.window_from, fifth.window) == (4, 4)  # no step of the ramp before
    assert fifth.share == fourth.share


@pytest.mark.parametrize("cleared", [0, 1])
def test_with_a_confidence_every_row_counts_also_after_an_alarm(cleared):
    settings = settings_with(confidence=0.9)
    rows = rows_with(new1=(100, 0.0), old1=(200, 1.0), new2=(300, 2.0), old2=(50, 0.0, 3))
    step = follow(settings, rows, follow(settings, rows), cleared=cleared)
    counts = step.ramp_share.guardrails["harm"]
    assert counts.old == ArmCounts(1250, 11.0, 3)
    assert counts.new == ArmCounts(400, 2.0)
