"""The share of the next step of a ramp of policies (docs/explanation/release.md).

The new policy's rows are those of the calibration window, one step of its ramp or several with few
rows each: training rows too, since the policy was fixed before. The reference's rows are
calibration rows alone, since the new policy may have learned from training rows. They are rows
whose number was decided without looking at them, and before the ramp began:

- of the safe policy those of the last rounds without a policy, one after the other;
- of a policy that reached a share of 1, those of its first step at this share, which other rows had
  decided.

With a confidence all rows of both policies count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tether.release.arm_counts import ArmCounts
from tether.release.ramp_calibration import ramp_share
from tether.rounds.policy_registry import SAFE
from tether.rounds.ramps.policy_rows import PolicyRows, RowGroup
from tether.rounds.ramps.ramp_record import RampRecord
from tether.rounds.releases.next_step import follow_ramp
from tether.rounds.releases.step import Seen
from tether.rounds.round_start import alarm_note
from tether.rounds.settings import Settings

WHOLE_SHARE = 1.0
SHARE_BY_ROUNDING = 1e-9
"""A share that losses added in another order could make 0, where a reference is exactly at alpha.
Which policy is the reference must not depend on that order: verify adds them in its own."""


def next_ramp_step(
    settings: Settings,
    rows: PolicyRows,
    records: Sequence[RampRecord],
    *,
    begins: bool,
    alarm: int | None,
    cleared: int,
    seen: Seen,
    begun: str,
) -> RampRecord:
    """The round after those in `records`: the first step of a policy, or its next one.

    It `begins` with a new policy. `alarm` stands, and `cleared` is the last one that was cleared.
    """
    number = 1 + (records[-1].number if records else 0)
    previous = None if begins else records[-1]
    step = None if previous is None else previous.step
    if step is not None and cleared > step.cleared:
        step = None  # a new ramp of the same policy
    first = number if previous is None else previous.first
    ramp = number if step is None else step.ramp
    if previous is None or step is None:
        reference = find_reference(settings, rows, records, cleared)
    else:
        reference = previous.reference
    made = follow_ramp(
        settings.guardrails,
        settings.confidence,
        _RampRows(settings, rows, records, reference, ramp, first),
        step,
        number=number,
        stops=None if alarm is None else alarm_note(alarm),
        cleared=cleared,
        seen=seen,
        begun=begun,
    )
    share = made.ramp_share
    if not share.share:
        reason = reason_in_a_ramp(share.reason, is_halted=alarm is not None)
        share = replace(share, reason=reason)
    return RampRecord(number, reference, first, replace(made, ramp_share=share))


def reason_in_a_ramp(reason: str, *, is_halted: bool) -> str:
    """Why a share is 0, in the words of a ramp of policies."""
    reason = reason.replace("the old system", "the reference policy")
    return reason if is_halted else f"{reason}; the safe policy serves"


def find_reference(
    settings: Settings, rows: PolicyRows, records: Sequence[RampRecord], cleared: int
) -> int:
    """The reference of a ramp that begins: the last passing policy that reached a share of 1, or 0.

    It passes if a ramp against it begins with a share above 0, by more than rounding. Policies from
    before the last round without a policy, or before an alarm was cleared, do not count.
    """
    if settings.against == "safe":
        return SAFE
    for reached in _whole_shares(records, cleared):
        if _first_share(settings, rows, records, reached) > SHARE_BY_ROUNDING:
            return reached
    return SAFE


def _whole_shares(records: Sequence[RampRecord], cleared: int) -> list[int]:
    """The rounds in which ramps reached a share of 1; that of the last ramp first."""
    reached: dict[int, int] = {}
    for each in reversed(records):
        if each.step is None or each.step.cleared != cleared:
            break
        if each.share == WHOLE_SHARE:
            reached[each.step.ramp] = each.number
    return list(reached.values())


def _first_share(
    settings: Settings, rows: PolicyRows, records: Sequence[RampRecord], reference: int
) -> float:
    """The share at which a ramp against a reference other than the safe policy would begin."""
    number = 1 + records[-1].number
    used = _RampRows(settings, rows, records, reference, ramp=number, first=number)
    unknown = dict.fromkeys(settings.guardrails, ArmCounts(0, 0.0))
    return ramp_share(
        settings.guardrails, old=used.old(), new=unknown, confidence=settings.confidence
    ).share


class _RampRows:
    """The rows that the share of a step is computed from."""

    def __init__(
        self,
        settings: Settings,
        rows: PolicyRows,
        records: Sequence[RampRecord],
        reference: int,
        ramp: int,
        first: int,
    ) -> None:
        self._confident, self._rows, self._records = settings.confidence is not None, rows, records
        self._reference, self._ramp, self._first = reference, ramp, first

    def new_count(self, first: int, last: int) -> int:
        return sum(self._rows.rows[group] for group in self._own(first, last))

    def new(self, first: int, last: int) -> dict[str, ArmCounts]:
        if not self._confident:
            return self._rows.counts(self._own(first, last))
        mine = self._rounds_since(self._first)
        return self._rows.counts(
            group for group in self._rows.rows if group.is_own and group.round in mine
        )

    def old(self) -> dict[str, ArmCounts]:
        reference, rows = self._reference, self._rows
        if not self._confident:
            rounds = {reference} if reference != SAFE else self._safe_rounds()
            return rows.counts(RowGroup(number, reference, True) for number in rounds)
        own: set[int] = set()
        if reference != SAFE:
            own = self._rounds_since(
                next(each.first for each in self._records if each.number == reference)
            )
        return rows.counts(
            group
            for group in rows.rows
            if group.served == reference or (group.is_own and group.round in own)
        )

    def _own(self, first: int, last: int) -> list[RowGroup]:
        steps = range(first, last + 1)
        return [RowGroup(step, step, each) for step in steps for each in (False, True)]

    def _rounds_since(self, first: int) -> set[int]:
        """The steps of the policy that began with round `first`."""
        return {each.number for each in self._records if each.step and each.first == first}

    def _safe_rounds(self) -> set[int]:
        """The last rounds without a policy before the ramp, one after the other."""
        found: set[int] = set()
        for each in reversed(self._records):
            if each.number >= self._ramp:
                continue
            if each.step is None:
                found.add(each.number)
            elif found:
                break
        return found
