"""What a live page shows, whatever is served: a release, or a run of a controller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tether.report.number_format import format_number
from tether.service.dashboard.offered_acts import OfferedAct
from tether.service.dashboard.page_words import PageWords

if TYPE_CHECKING:
    from tether.monitor import RiskStatus
    from tether.rounds.history import Estimate

ALARMS_SHOWN, ACTS_SHOWN = 20, 50
"""How many of the last alarms and acts are shown; `tether report` has all of them."""
SHOWN_DIGITS = 6
"""How many significant digits numbers have on their way to the page."""


@dataclass(frozen=True)
class Sentences:
    """A statement and what explains it."""

    sentence: str
    details: str


@dataclass(frozen=True)
class State:
    """How it is now: a word for the color ("running", "held", "safe", "alarm"), and sentences.

    `note` says why nothing moves, if that is so.
    """

    kind: str
    heading: str
    sentence: str
    details: str
    note: str = ""


@dataclass(frozen=True)
class Progress:
    """How far the present step is: `done` of `length`, in rows or in seconds since it began.

    `length` is None if it ends by hand; `is_paused` while it cannot end.
    """

    unit: str
    begun: str
    done: float | None
    length: float | None
    is_paused: bool


@dataclass(frozen=True)
class Level:
    """A share or a beta, as text, and where it stands on the axis of the path.

    `value` is infinite, on the page null, where the optimized policy is not restricted.
    """

    value: float
    text: str
    height: float


@dataclass(frozen=True)
class Point:
    """One step: what was in force when it began, and why.

    `falls` if an alarm ended that before the step was over.
    """

    number: int
    begun: str
    level: Level
    why: str
    falls: bool = False


@dataclass(frozen=True)
class Mean:
    """A mean loss with its interval."""

    count: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class StepMeans:
    """The mean losses of both systems in a step; None where nothing has arrived.

    A round of a run has one of them: `new` if it has an optimized policy.
    """

    number: int
    old: Mean | None
    new: Mean | None


@dataclass(frozen=True)
class MonitorPart:
    """The monitor of a loss in the present step.

    `level` is the risk of the new system that it watches for, `evidence` the largest wealth of its
    e-process so far, and `needed` that which raises an alarm. `alarm_at` is the loss that raised
    one, and `evidence_from` that from which its evidence grew. The points are a number of losses, a
    mean, and the limits of the confidence sequence.
    """

    level: float
    evidence: float
    needed: float
    alarm_at: int | None
    evidence_from: int | None
    points: Sequence[tuple[int, float, float, float]]


@dataclass(frozen=True)
class Guardrail:
    """One loss: what is tolerated, promised and known of it.

    The mean of the new system is over the steps from `new_since` on, or of `new_step`, the last
    with a loss, where that is None. `without_monitor` says why there is no monitor, if there is
    none.
    """

    name: str
    alpha: float
    bound: float
    alarm_risk: float
    promise: float | None
    old: Mean | None
    new: Mean | None
    new_step: int | None
    new_since: int | None
    means: Sequence[StepMeans]
    monitor: MonitorPart | None
    without_monitor: str


@dataclass(frozen=True)
class Document:
    """Everything that is shown of what is served.

    Parameters
    ----------
    title : str
        Its name.
    kind : str
        What it is: "release" or "run".
    words : PageWords
        What things are called on the page.
    offers : sequence of OfferedAct
        What people may do.
    target : str
        What the tolerances are: "alpha" or "promise".
    number : int
        The number of the present step.
    level : Level
        What is in force now: 0 while an alarm stands.
    state : State
        The same in sentences.
    promise : Sentences
        What is promised now.
    progress : Progress
        How far the present step is.
    path : sequence of Point
        The last steps in order.
    axis : sequence of tuple
        The heights and texts of the ticks of the path; empty for shares, which have plain ones.
    left_out : int
        How many steps before them are not shown.
    guardrails : sequence of Guardrail
        The losses.
    alarms : sequence of mapping
        The last alarms, latest first.
    acts : sequence of mapping
        What people did, latest first.
    recent : sequence of mapping
        The last rows, latest first.
    assumptions : sequence of mapping
        What the promise assumes, each with a status, a title and an explanation.
    unstored : int, default 0
        How many answers were given while the store was unavailable, and are listed in it.
    """

    title: str
    kind: str
    words: PageWords
    offers: Sequence[OfferedAct]
    target: str
    number: int
    level: Level
    state: State
    promise: Sentences
    progress: Progress
    path: Sequence[Point]
    axis: Sequence[tuple[float, str]]
    left_out: int
    guardrails: Sequence[Guardrail]
    alarms: Sequence[Mapping[str, Any]]
    acts: Sequence[Mapping[str, Any]]
    recent: Sequence[Mapping[str, Any]]
    assumptions: Sequence[Mapping[str, Any]]
    unstored: int = 0

    def parts(self) -> dict[str, Any]:
        """Convert to plain values by name; numbers that JSON cannot have are None.

        Returns
        -------
        dict
            The fields by name.
        """
        plain: dict[str, Any] = _plain(self)
        return plain


class Watched(Protocol):
    """What a dashboard stands in front of."""

    def look(self) -> Document:
        """Read what is new, in a thread; a StoreError if the store does not answer."""
        ...


def share_level(share: float) -> Level:
    """A share with its text.

    >>> share_level(0.12346).text
    '12.3 %'
    """
    return Level(share, f"{format_number(100 * share)} %", share)


def latest(records: Sequence[Any], most: int) -> list[dict[str, Any]]:
    """The last records as plain values, latest first."""
    return [asdict(each) for each in reversed(records[-most:])]


def mean_of(found: Estimate | None) -> Mean | None:
    """An estimate as the page has it."""
    return None if found is None else Mean(found.count, found.mean, found.lower, found.upper)


def monitor_part(path: Sequence[RiskStatus]) -> MonitorPart | None:
    """The states of a monitor as the page has them; None if there is no monitor."""
    if not path:
        return None
    last = path[-1]
    return MonitorPart(
        level=last.alpha,
        evidence=math.exp(min(last.log_peak, 700.0)),
        needed=1 / last.false_alarm_probability,
        alarm_at=last.alarm_at,
        evidence_from=last.evidence_from,
        points=[(each.seen, each.mean, each.lower, each.upper) for each in path if each.seen],
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{SHOWN_DIGITS}g}") if math.isfinite(value) else None
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
