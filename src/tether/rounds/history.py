"""A run so far, as frozen records: one for each round, one for each alarm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tether._core.words import Columns, Described, Description
from tether.control.calibration import Calibration
from tether.release.calibration_window import window_name
from tether.release.ramp_result import RampShare
from tether.rounds.history_summary import describe_history, describe_round, rounds_columns
from tether.rounds.limits import Limit
from tether.rounds.run_settings import RAMP_FAMILY

if TYPE_CHECKING:
    pass


INTERVAL_ERROR_PROBABILITY = 0.05
"""The probability that an interval of an `Estimate` misses what it estimates."""


@dataclass(frozen=True)
class Estimate:
    """A mean with a 95 % confidence interval for what it estimates.

    For losses the interval holds at all times simultaneously (a confidence sequence); for rewards,
    which have no bound, it is that of the normal approximation.

    Parameters
    ----------
    count : int
        How many values were averaged.
    mean : float
        Their mean.
    lower : float
        The lower end of the interval.
    upper : float
        The upper end of the interval.
    standard_error : float, optional
        The standard error of the mean; NaN if it is not known.
    """

    count: int
    mean: float
    lower: float
    upper: float
    standard_error: float = math.nan


@dataclass(frozen=True)
class Alarm:
    """An alarm of a monitor; the safe policy serves from `raised` until `cleared`.

    Parameters
    ----------
    number : int
        Its number, from 1.
    round : int
        The round whose losses or contexts raised it.
    monitor : str
        The monitor that raised it: "risk", "shift" or "silence"; "halt" if a person did.
    message : str
        What the monitor found.
    raised : str
        When it was raised, in UTC, as ISO 8601.
    cleared : str, optional
        When it was cleared, likewise; None while the alarm stands.
    reason : str, optional
        Why a person cleared it.
    actor : str, optional
        Who cleared it.
    """

    number: int
    round: int
    monitor: str
    message: str
    raised: str
    cleared: str | None = None
    reason: str | None = None
    actor: str | None = None


@dataclass(frozen=True)
class AuditRecord:
    """What a person did to a run.

    Parameters
    ----------
    number : int
        Its number, from 1.
    act : str
        What was done: "halt", "resume", "withdraw", "retire", "import" or "advance".
    actor : str
        Who did it.
    reason : str
        Why.
    subject : int or None
        The round that was retired, the last alarm that was cleared, or the step that has begun.
    done : str
        When, in UTC, as ISO 8601.
    """

    number: int
    act: str
    actor: str
    reason: str
    subject: int | None
    done: str


@dataclass(frozen=True)
class RoundRecord(Described):
    """One round: what was calibrated when it began, and its outcome so far.

    Parameters
    ----------
    number : int
        The round's number, from 1.
    policy : str or None
        The name of the optimized policy; None if the round began without one.
    begun : str
        When it began, in UTC, as ISO 8601.
    calibration : Calibration or None
        The calibration; None if there was nothing to calibrate, and `note` says why.
    note : str
        Why the safe policy serves, or how missing losses were counted; often empty.
    rows : int
        Actions taken in the round, by any policy, for training and for calibration.
    safe_rows : int
        Those taken by the safe policy: all, or those after an alarm or a failure.
    calibration_rows : int
        Those assigned to calibration.
    observed : int
        Rows whose loss has arrived. With several losses it is counted for each loss alone, and
        this is the smallest of these counts: that of the scarcest loss.
    withdrawn : int
        Rows that were never carried out, and were withdrawn with a reason.
    losses : mapping of str to Estimate
        The realized risk of the policy that the round began with, over training and calibration
        rows, by loss; those of which nothing has arrived are left out.
    reward : Estimate or None
        Its mean reward; None before the first reward.
    fallback_rows : int, optional
        Those of the safe policy's rows that it took because the round's policy failed.
    failure : str, optional
        The error message of its last failure.
    retired : bool, default False
        Whether its rows are left out of later calibrations because its policy was lost.
    stored : bool, default False
        Whether its policy is in the store, so that a restart needs nothing else.
    ramp_share : RampShare, optional
        In a ramp, the share of the round's policy, with the bounds and the promise that it rests
        on; None if the round began without a policy. Then `losses` are those of all its rows.
    window : int, default 0
        The last round whose rows of the policy decided the share; 0 if none did.
    window_from : int, default 0
        The first round whose rows did: `window`, unless those of several rounds did together.
    reference : int, default 0
        The round whose policy answers beside the round's own in a ramp; 0 is the safe policy.
    policy_rows : int, default 0
        In a ramp, the actions that the round's own policy took.
    policy_losses : mapping of str to Estimate, optional
        Their mean losses, by loss.
    over : bool, default False
        In a ramp, whether an alarm was cleared since the present round began: the next action
        begins another one.
    """

    number: int
    policy: str | None
    begun: str
    calibration: Calibration | None
    note: str
    rows: int
    safe_rows: int
    calibration_rows: int
    observed: int
    withdrawn: int
    losses: Mapping[str, Estimate]
    reward: Estimate | None
    fallback_rows: int = 0
    failure: str = ""
    retired: bool = False
    stored: bool = False
    ramp_share: RampShare | None = None
    window: int = 0
    window_from: int = 0
    reference: int = 0
    policy_rows: int = 0
    policy_losses: Mapping[str, Estimate] = field(default_factory=dict)
    over: bool = False

    @property
    def pending(self) -> int:
        """Rows whose loss is still missing; with several losses, those that lack the scarcest one.

        `Controller.pending` has every row that lacks any of its losses, which may be more.
        """
        return self.rows - self.observed - self.withdrawn

    @property
    def beta(self) -> float:
        """The beta in force: 0 if only the safe policy serves, and in a ramp, which has a share."""
        return 0.0 if self.calibration is None else self.calibration.beta

    @property
    def promises(self) -> Mapping[str, float]:
        """What is promised of every loss; empty where nothing was calibrated."""
        if self.ramp_share is not None:
            return self.ramp_share.promises or {}
        found = self.calibration
        return {} if found is None else {name: each.promise for name, each in found.losses.items()}

    @property
    def share(self) -> float:
        """The share of the round's policy in a ramp."""
        return 0.0 if self.ramp_share is None else self.ramp_share.share

    @property
    def why(self) -> str:
        """What decided the share in a ramp, in words."""
        share = self.ramp_share
        if share is None or share.reason or self.over:
            return self.note
        decided = share.why(
            window_name("round", self.window_from, self.window),
            "so small that even a policy that always fails stays within what is tolerated",
        )
        beside = f", beside the policy of round {self.reference}" if self.reference else ""
        return f"{decided}{beside}"

    def to_frame(self) -> Columns:
        """Return the round as a table with one row, like those of `History.to_frame`.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept.
        """
        return rounds_columns([self])

    def _describe(self) -> Description:
        return describe_round(self)


@dataclass(frozen=True)
class History(Described):
    """A run so far: its settings, its rounds in order, its alarms.

    Parameters
    ----------
    store : str
        The URL of the store, without any password.
    created : str
        When the store was created, in UTC, as ISO 8601.
    safe : str
        The name of the safe policy.
    limits : mapping of str to Limit
        The losses by name, each with the tolerated expectation, the largest possible value and the
        risk above which its monitor raises an alarm. The name of a single loss is "loss".
    family : str
        The family of tethered policies.
    test_weight : str or float
        How the test point is weighed: "empirical", "analytic" or a number.
    against : str
        The policy that beta is measured against: "safe" or "last".
    missing : str
        How rows without a loss are treated: "wait", "worst_case" or "exclude".
    calibration_share : float
        The share of rows that are set apart for calibration.
    rounds : tuple of RoundRecord
        The rounds in order.
    alarms : tuple of Alarm
        The alarms in order.
    safe_losses : mapping of str to Estimate
        The safe policy's mean losses, over all rows that it took in any round.
    safe_reward : Estimate or None
        The safe policy's mean reward, likewise.
    shortlist : int, optional
        How many candidates the safe policy draws for each action; None without shortlists.
    target : str, default "alpha"
        What the alphas are: those of every calibration, or the promises that each is to state.
    confidence : float, optional
        The probability over logs of each promise, where it is not in expectation.
    audit : tuple of AuditRecord, optional
        What people did to the run, in order.
    actions_per_step : int, optional
        In a ramp, after how many actions a step ends; None if by hand.
    """

    store: str
    created: str
    safe: str
    limits: Mapping[str, Limit]
    family: str
    test_weight: str | float
    against: str
    missing: str
    calibration_share: float
    rounds: tuple[RoundRecord, ...]
    alarms: tuple[Alarm, ...]
    safe_losses: Mapping[str, Estimate]
    safe_reward: Estimate | None
    shortlist: int | None = None
    target: str = "alpha"
    confidence: float | None = None
    audit: tuple[AuditRecord, ...] = ()
    actions_per_step: int | None = None

    @property
    def is_ramp(self) -> bool:
        """Whether its policies are ramped: rounds have a share instead of a beta."""
        return self.family == RAMP_FAMILY

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that stands, if any."""
        return next((alarm for alarm in self.alarms if alarm.cleared is None), None)

    def to_frame(self) -> Columns:
        """Return one row per round.

        Returns
        -------
        Columns
            A dictionary of arrays, which data-frame libraries accept: `round`, `policy`, `begun`,
            `beta` (in ramps `share`), `useful`, `actions`, `safe_actions`, `calibration_rows`,
            `observed`, `pending`, `promise`, `loss` and `reward`, the last two with their intervals
            `_lower` and `_upper`; with several losses `promise[name]` and `loss[name]`. NaN where
            there is no such number.
        """
        return rounds_columns(self.rounds, self.limits)

    def _describe(self) -> Description:
        return describe_history(self)
