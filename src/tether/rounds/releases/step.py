"""A step of a release: the share of the new system, and what it was computed from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tether._core import records
from tether.release.calibration_window import window_name
from tether.release.ramp_calibration import NO_OLD_ROWS
from tether.release.ramp_result import RampShare
from tether.rounds.releases.release_settings import ReleaseSettings

Seen = dict[int, tuple[int, int]]
"""The last action and the last observation of each lane."""

WITHOUT_ROWS = "so small that even a new system that always fails stays within what is tolerated"
"""Why a share is what it is where nothing is known of the new system."""


@dataclass(frozen=True)
class Step:
    """A step of a release, as it was stored when it began.

    Parameters
    ----------
    number : int
        Its number, from 1.
    ramp_share : RampShare
        The share of the new system, with the bounds and the promise that it rests on.
    window : int
        The last step whose rows of the new system decided the share; 0 if none did.
    ramp : int
        The step at which the ramp began: 1, or the first one after an alarm was cleared.
    cleared : int
        The last alarm that was cleared before it; 0 if none was.
    seen : dict
        The last action and the last observation of each lane of the store when it began.
    begun : str
        When it began, in UTC, as ISO 8601.
    window_from : int, default 0
        The first step whose rows of the new system decided the share; 0 if none did.
    """

    number: int
    ramp_share: RampShare
    window: int
    ramp: int
    cleared: int
    seen: Seen
    begun: str
    window_from: int = 0

    @property
    def share(self) -> float:
        """The new system's share of the keys."""
        return self.ramp_share.share

    @property
    def why(self) -> str:
        """What decided the share, in words."""
        return why_share(self.ramp_share, (self.window_from, self.window), self.number)

    @property
    def rows_before(self) -> int:
        """How many rows there were when it began."""
        return sum(action for action, _ in self.seen.values())

    def collects_old_rows(self, settings: ReleaseSettings) -> bool:
        """Say whether the rows of the step are those that the old system's bound comes from.

        Nobody may decide by its losses when such a step ends, so alarms do not change it. They have
        no effect either, since its share is 0.

        Parameters
        ----------
        settings : ReleaseSettings
            The settings of the release.

        Returns
        -------
        bool
            True for the first step of a release in expectation without a log.
        """
        return self.number == 1 and settings.collects_old_rows

    def rows_lacking(self, settings: ReleaseSettings, rows: int) -> int:
        """Count the keys that the step lacks to be likely to let the share leave 0.

        Their number depends on what is tolerated alone, and not on losses.

        Parameters
        ----------
        settings : ReleaseSettings
            The settings of the release.
        rows : int
            How many rows the release has.

        Returns
        -------
        int
            Their number; 0 unless the step collects the old system's rows and has too few.
        """
        if not self.collects_old_rows(settings):
            return 0
        return max(0, settings.least_first_rows - (rows - self.rows_before))

    def is_over(
        self,
        settings: ReleaseSettings,
        rows: int,
        cleared: int,
        now: datetime,
        *,
        is_halted: bool = False,
    ) -> bool:
        """Say whether the next step is due.

        Parameters
        ----------
        settings : ReleaseSettings
            The settings of the release.
        rows : int
            How many rows the release has.
        cleared : int
            The last alarm that was cleared.
        now : datetime.datetime
            The present time.
        is_halted : bool, default False
            Whether an alarm stands.

        Returns
        -------
        bool
            True if its keys have come, its time is over, or a person has resumed; while an alarm
            stands, only for a step that collects the old system's rows, which no resumption ends,
            and which goes on after its time while it has too few of them.
        """
        if not self.collects_old_rows(settings):
            if is_halted:
                return False
            if cleared > self.cleared:
                return True
        if settings.keys_per_step is not None:
            return rows - self.rows_before >= settings.keys_per_step
        if settings.step_seconds is not None:
            passed = now - datetime.fromisoformat(self.begun)
            is_late = passed.total_seconds() >= settings.step_seconds
            return is_late and not self.rows_lacking(settings, rows)
        return False

    def keys_left(
        self, settings: ReleaseSettings, rows: int, *, is_halted: bool = False
    ) -> int | None:
        """Count the keys that still belong to the step.

        Parameters
        ----------
        settings : ReleaseSettings
            The settings of the release.
        rows : int
            How many rows the release has.
        is_halted : bool, default False
            Whether an alarm stands.

        Returns
        -------
        int or None
            Their number; None if the step is not ended by it.
        """
        if settings.keys_per_step is None:
            return None
        if is_halted and not self.collects_old_rows(settings):
            return None
        return settings.keys_per_step - (rows - self.rows_before)

    def to_row(self) -> dict[str, Any]:
        """Convert to a row of the table of rounds.

        Returns
        -------
        dict
            The columns by name.
        """
        content = {
            "share": self.ramp_share.to_dict(),
            "window": self.window,
            "window_from": self.window_from,
            "ramp": self.ramp,
            "cleared": self.cleared,
        }
        return {
            "number": self.number,
            "policy": "new",
            "reference": 0,
            "log_beta": math.log(self.share) if self.share > 0 else -math.inf,
            "seen": json.dumps({str(lane): list(each) for lane, each in self.seen.items()}),
            "calibration": json.dumps(records.encode(content)),
            "note": self.ramp_share.reason,
            "begun": self.begun,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Step:
        """Convert back from what `to_row` returned.

        Parameters
        ----------
        row : mapping
            A row of the table of rounds.

        Returns
        -------
        Step
            The step.

        Raises
        ------
        ValueError
            If columns of the row contradict each other.
        """
        content = json.loads(row["calibration"])
        seen = {int(lane): (each[0], each[1]) for lane, each in json.loads(row["seen"]).items()}
        share = RampShare.from_dict(content["share"])
        step = cls(
            number=row["number"],
            ramp_share=share,
            window=content["window"],
            ramp=content["ramp"],
            cleared=content["cleared"],
            seen=seen,
            begun=row["begun"],
            window_from=content["window_from"],
        )
        written = step.to_row()
        for name in ("log_beta", "note"):
            if row[name] != written[name]:
                raise ValueError(f"{name} is {row[name]!r}, but its share says {written[name]!r}")
        return step


def why_share(share: RampShare, window: tuple[int, int], number: int) -> str:
    """What decided the share of a step, in words; `window` are the first and last step that did."""
    if share.reason == NO_OLD_ROWS and number == 1:
        return "this step collects rows of the old system; the new one has no keys yet"
    if share.reason == NO_OLD_ROWS and share.confidence is None:
        return (
            f"{share.reason}: only those of the first step count, and it had none. Begin another "
            f"release, in another store"
        )
    return share.why(window_name("step", *window), WITHOUT_ROWS)


def goes_on(rows: int, least: int) -> str:
    """Why a first step whose time is over has not ended, in words."""
    return f"step 1 goes on: {rows:,} of at least {least:,} keys of the old system have come"


def moment() -> datetime:
    """The present time; tests replace it."""
    return datetime.now(UTC)
