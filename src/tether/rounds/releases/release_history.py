"""A release so far, as frozen records: one for each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tether._core.words import Columns, Described, Description
from tether.release.calibration_window import window_name
from tether.release.ramp_calibration import NO_OLD_ROWS
from tether.release.ramp_result import RampShare
from tether.rounds.history import Alarm, AuditRecord, Estimate
from tether.rounds.limits import Limit
from tether.rounds.releases.closed_share import closed_share_advice
from tether.rounds.releases.exceeded_risk import exceeded_risk
from tether.rounds.releases.inverted_losses import inverted_losses
from tether.rounds.releases.missing_outcomes import missing_outcomes
from tether.rounds.releases.pooled_losses import pooled_losses
from tether.rounds.releases.release_summary import describe_release, steps_columns
from tether.rounds.releases.stalled_share import open_first_step, stalled_share
from tether.rounds.releases.step import why_share
from tether.rounds.releases.unwatched_system import unwatched_system

if TYPE_CHECKING:
    pass

WARNING_KINDS = ("inverted", "exceeded", "unwatched", "closed", "missing", "stalled")
"""What a release may be warned of: attributes of its history."""


@dataclass(frozen=True)
class SystemRecord:
    """One system in a step.

    Parameters
    ----------
    rows : int
        The keys that it answered for the first time.
    losses : mapping of str to Estimate
        Their mean losses so far, by guardrail; those of which nothing has arrived are left out.
    """

    rows: int
    losses: Mapping[str, Estimate]


@dataclass(frozen=True)
class StepRecord:
    """One step of a release: its share, why, and what has come of it so far.

    Parameters
    ----------
    number : int
        The step's number, from 1.
    begun : str
        When it began, in UTC, as ISO 8601.
    calibration : RampShare
        The share with the bounds and the promise that it rests on.
    window : int
        The last step whose rows of the new system decided the share; 0 if none did.
    ramp : int
        The step at which the ramp began: 1, or the first after an alarm was cleared.
    cleared : int
        The last alarm that was cleared before it; 0 if none was.
    old : SystemRecord
        The old system in this step.
    new : SystemRecord
        The new system in this step.
    stopped_by : int, optional
        The first alarm that stood in this step, from which on the old system answered; None if none
        did.
    window_from : int, default 0
        The first step whose rows of the new system decided the share: `window`, unless the rows of
        several steps did together.
    """

    number: int
    begun: str
    calibration: RampShare
    window: int
    ramp: int
    cleared: int
    old: SystemRecord
    new: SystemRecord
    stopped_by: int | None = None
    window_from: int = 0

    @property
    def share(self) -> float:
        """The new system's share of the keys, until an alarm if there was one.

        It is 0 where the alarm stood before any key had the new system.
        """
        is_unused = self.stopped_by is not None and self.new.rows == 0
        return 0.0 if is_unused else self.calibration.share

    @property
    def promises(self) -> Mapping[str, float]:
        """What is promised of each guardrail; the bound of the loss where nothing is."""
        if self.share > 0:
            return self.calibration.promises
        found = self.calibration.guardrails
        return {name: each.guardrail.bound for name, each in found.items()}

    @property
    def window_steps(self) -> str:
        """The steps whose rows of the new system decided the share, in words; empty if none did."""
        return window_name("step", self.window_from, self.window) if self.window else ""

    @property
    def why(self) -> str:
        """What decided the share, in words."""
        decided = why_share(self.calibration, (self.window_from, self.window), self.number)
        if self.stopped_by is None or self.calibration.share == 0:
            return decided
        if self.share > 0:
            return f"{decided}; the old system alone since alarm {self.stopped_by}"
        return (
            f"alarm {self.stopped_by} stood before any key had the new system; without it the "
            f"share were {self.calibration.share:.3%}: {decided}"
        )


@dataclass(frozen=True)
class ReleaseHistory(Described):
    """A release so far: its settings, its steps in order, its alarms.

    Parameters
    ----------
    store : str
        The URL of the store, without any password.
    created : str
        When the store was created, in UTC, as ISO 8601.
    limits : mapping of str to Limit
        The guardrails by name, each with what is tolerated, the largest possible loss and the risk
        above which its monitor raises an alarm.
    target : str
        What is tolerated: "alpha" or the whole "promise".
    confidence : float or None
        The probability of a promise that holds at all steps; None if it is in expectation.
    length : str
        When a step ends, in words.
    wait : int
        How many steps after its end the rows of a step are used.
    share : float
        The share in force: 0 while an alarm stands.
    steps : tuple of StepRecord
        The steps in order.
    old_losses : mapping of str to Estimate
        The old system's mean losses over all steps.
    alarms : tuple of Alarm
        The alarms in order; the round of an alarm is a step.
    audit : tuple of AuditRecord
        What people did to the release, in order.
    unstored : int
        How many answers the old system gave while the store was unavailable, which count nowhere.
    step_seconds : float, optional
        After how many seconds a step ends; None if not by time.
    keys_per_step : int, optional
        After how many keys a step ends; None if not by their number.
    """

    store: str
    created: str
    limits: Mapping[str, Limit]
    target: str
    confidence: float | None
    length: str
    wait: int
    share: float
    steps: tuple[StepRecord, ...]
    old_losses: Mapping[str, Estimate]
    alarms: tuple[Alarm, ...]
    audit: tuple[AuditRecord, ...]
    unstored: int = 0
    step_seconds: float | None = None
    keys_per_step: int | None = None

    @property
    def stalled(self) -> str:
        """Why the share does not grow although time passes; empty if nothing holds it."""
        if self.alarm:
            return ""
        goes_on = open_first_step(self.steps, self.step_seconds)
        return goes_on or stalled_share(self.steps, wait=self.wait)

    @property
    def missing(self) -> str:
        """Which missing outcomes keep the share of the present step down; empty if none do."""
        if self.alarm:
            return ""
        return missing_outcomes(self.steps[-1].calibration, wait=self.wait)

    @property
    def inverted(self) -> str:
        """Whether the outcomes look inverted, as a question in words; empty if they do not."""
        losses = {"old": self.old_losses, "new": self.new_losses}
        return inverted_losses(losses, self.limits)

    @property
    def exceeded(self) -> str:
        """Whether the new system is clearly above what is tolerated; empty if it is not.

        Also empty where it answers no key, and where it answers all: what is served is then its own
        risk, which the monitors watch, and its last rows have passed.
        """
        return exceeded_risk(self.new_losses, self.limits) if 0 < self.share < 1 else ""

    @property
    def closed(self) -> str:
        """What to do where the old system alone does not pass; empty if it does."""
        step = self.steps[-1]
        is_lost = step.calibration.reason == NO_OLD_ROWS and step.calibration.confidence is None
        if is_lost and step.number > 1:
            return step.why
        is_of_this_release = self.steps[0].calibration.reason == NO_OLD_ROWS
        return closed_share_advice(step.calibration, outcomes_may_come=is_of_this_release)

    @property
    def unwatched(self) -> str:
        """Since when the new system serves without rows, so that nothing of it is watched."""
        by_keys = self.keys_per_step is not None
        return unwatched_system(self.steps, self.share, by_keys=by_keys)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Everything that keeps the share down or looks wrong, each in words."""
        return tuple(self.warnings_by_kind.values())

    @property
    def warnings_by_kind(self) -> Mapping[str, str]:
        """The same by the name of the attribute that says it, for programs that tell them apart."""
        found = {kind: getattr(self, kind) for kind in WARNING_KINDS}
        return {kind: told for kind, told in found.items() if told}

    @property
    def new_losses(self) -> Mapping[str, Estimate]:
        """The new system's mean losses over the steps of the present ramp, by guardrail."""
        ramp = self.steps[-1].ramp
        return pooled_losses(
            (step.new.losses for step in self.steps if step.ramp == ramp), self.limits
        )

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that stands, if any."""
        return next((alarm for alarm in self.alarms if alarm.cleared is None), None)

    @property
    def is_resumed(self) -> bool:
        """Whether the alarms were cleared during the present step: the next key ends it."""
        step = self.steps[-1]
        if self.alarm is not None or step.calibration.reason == NO_OLD_ROWS:
            return False
        return bool(self.alarms) and self.alarms[-1].number > step.cleared

    def to_frame(self) -> Columns:
        """Return one row per step.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `step`, `begun`, `share`,
            `new_keys`, `old_keys`, `promise`, `new_loss` and `old_loss` with their intervals
            `_lower` and `_upper`, and `why`; with several guardrails `promise[name]`,
            `new_loss[name]` and `old_loss[name]`. NaN before the first loss.
        """
        return steps_columns(self)

    def _describe(self) -> Description:
        return describe_release(self)
