"""What a run has been so far: a frozen record of every round, for people and for reports."""

from __future__ import annotations

from dataclasses import dataclass

from tether.control.calibration import Calibration


@dataclass(frozen=True)
class Estimate:
    """A mean of `count` values, and limits for what it estimates at a confidence of 95 %.

    For losses the limits hold at all times together; for rewards, which have no bound, they are
    those of the normal approximation.
    """

    count: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Alarm:
    """An alarm of a monitor; traffic goes to the safe policy from `raised` until `cleared`."""

    number: int
    round: int
    monitor: str
    """"risk" or "shift"."""
    message: str
    raised: str
    """When, in UTC, as ISO 8601; likewise `cleared`, which is None while the alarm stands."""
    cleared: str | None = None
    reason: str | None = None
    """Why a person cleared it."""


@dataclass(frozen=True)
class RoundRecord:
    """One round: what was calibrated when it began, and what came of it so far."""

    number: int
    policy: str | None
    """The name of the optimized policy that was offered; None where none was."""
    begun: str
    calibration: Calibration | None
    """None where there was nothing to calibrate: `note` says why."""
    note: str
    """Why the safe policy serves, or how missing losses were counted; often empty."""
    rows: int
    """Actions taken in the round, by either policy and for either share."""
    safe_rows: int
    """Those of them that the safe policy took: all, or those after an alarm or a failure."""
    calibration_rows: int
    observed: int
    """Rows whose loss has arrived."""
    withdrawn: int
    """Rows that were never carried out, and were taken out with a reason."""
    loss: Estimate | None
    """The realized risk of the policy that the round was begun with, both shares together."""
    reward: Estimate | None
    fallback_rows: int = 0
    """Those of the safe policy's rows that it took since the round's policy failed."""
    failure: str = ""
    """What went wrong when it last did."""

    @property
    def pending(self) -> int:
        """Rows whose loss is still awaited."""
        return self.rows - self.observed - self.withdrawn

    @property
    def beta(self) -> float:
        """The beta in force: 0 where only the safe policy serves."""
        return 0.0 if self.calibration is None else self.calibration.beta


@dataclass(frozen=True)
class History:
    """A whole run: its terms, its rounds in order, its alarms."""

    store: str
    """Where it is kept, without any password."""
    created: str
    safe: str
    """The name of the safe policy."""
    alpha: float
    bound: float
    family: str
    test_weight: str | float
    against: str
    """"safe" or "last": what beta is measured against."""
    missing: str
    """How rows without a loss are treated: "wait", "worst_case" or "exclude"."""
    calibration_share: float
    watched: float
    """The risk above which the monitor raises its alarm."""
    rounds: tuple[RoundRecord, ...]
    alarms: tuple[Alarm, ...]
    safe_loss: Estimate | None
    """The safe policy's own mean loss and reward, over all rows that it took in any round."""
    safe_reward: Estimate | None

    @property
    def alarm(self) -> Alarm | None:
        """The alarm that stands, if one does."""
        return next((each for each in self.alarms if each.cleared is None), None)
