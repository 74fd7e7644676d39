"""A step of a release: the share of the new system, and what it was computed from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tether._core import records
from tether.release.ramp_result import RampShare
from tether.rounds.releases.release_settings import ReleaseSettings

Seen = dict[int, tuple[int, int]]
"""The last action and the last observation of each lane."""


@dataclass(frozen=True)
class Step:
    """One step: a row of the table of rounds.

    `window` is the step whose rows decided the share, 0 if none did. `ramp` is the step at which
    the ramp began: 1, or the first one after an alarm was cleared. `cleared` is the last alarm that
    was cleared before, and `seen` is how far each lane had come when the step began.
    """

    number: int
    ramp_share: RampShare
    window: int
    ramp: int
    cleared: int
    seen: Seen
    begun: str

    @property
    def share(self) -> float:
        """The new system's share of the keys."""
        return self.ramp_share.share

    @property
    def rows_before(self) -> int:
        """How many rows there were when it began."""
        return sum(action for action, _ in self.seen.values())

    def is_over(self, settings: ReleaseSettings, rows: int, cleared: int, now: datetime) -> bool:
        """Whether the next step is due, given the number of rows and the last cleared alarm."""
        if cleared > self.cleared:
            return True  # a person has resumed
        if settings.keys_per_step is not None:
            return rows - self.rows_before >= settings.keys_per_step
        if settings.step_seconds is not None:
            passed = now - datetime.fromisoformat(self.begun)
            return passed.total_seconds() >= settings.step_seconds
        return False

    def keys_left(self, settings: ReleaseSettings, rows: int) -> int | None:
        """How many more keys belong to the step; None if it is not ended by their number."""
        if settings.keys_per_step is None:
            return None
        return settings.keys_per_step - (rows - self.rows_before)

    def to_row(self) -> dict[str, Any]:
        """As the table of rounds has it."""
        content = {
            "share": self.ramp_share.to_dict(),
            "window": self.window,
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
        """The inverse of `to_row`; a row whose share is not that of its record is a ValueError."""
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
        )
        written = step.to_row()
        for name in ("log_beta", "note"):
            if row[name] != written[name]:
                raise ValueError(f"{name} is {row[name]!r}, but its share says {written[name]!r}")
        return step


def moment() -> datetime:
    """The present time; tests replace it."""
    return datetime.now(UTC)
