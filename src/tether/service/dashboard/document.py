"""What a live page shows, whatever is served: a release, or a run of a controller."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

SHOWN_DIGITS = 6
"""How many significant digits numbers have on their way to the page."""


@dataclass(frozen=True)
class Sentences:
    """A statement and what explains it."""

    sentence: str
    details: str


@dataclass(frozen=True)
class State:
    """How it is now: a word for the color ("running", "safe", "alarm"), and sentences.

    `note` says why nothing moves, if that is so.
    """

    kind: str
    heading: str
    sentence: str
    details: str
    note: str = ""


@dataclass(frozen=True)
class Progress:
    """How far the present step is: `done` of `length`, in keys or in seconds since it began.

    `length` is None if it ends by hand; `is_paused` while it cannot end.
    """

    unit: str
    begun: str
    done: float | None
    length: float | None
    is_paused: bool
    can_advance: bool


@dataclass(frozen=True)
class Point:
    """One step: what was in force, and why."""

    number: int
    begun: str
    value: float
    why: str


@dataclass(frozen=True)
class Mean:
    """A mean loss with its interval."""

    count: int
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True)
class StepMeans:
    """The mean losses of both systems in a step; None where nothing has arrived."""

    number: int
    old: Mean | None
    new: Mean | None


@dataclass(frozen=True)
class MonitorPart:
    """The monitor of a loss in the present step.

    `level` is the risk of the new system that it watches for, `evidence` the largest wealth of its
    e-process so far, and `needed` that which raises an alarm. The points are a number of losses, a
    mean, and the limits of the confidence sequence.
    """

    level: float
    evidence: float
    needed: float
    alarm_at: int | None
    points: Sequence[tuple[int, float, float, float]]


@dataclass(frozen=True)
class Guardrail:
    """One loss: what is tolerated, promised and known of it.

    `new_step` is the step of the mean of the new system. Without a monitor the new system's share
    is too small to violate what the monitor watches for.
    """

    name: str
    alpha: float
    bound: float
    alarm_risk: float
    promise: float | None
    old: Mean | None
    new: Mean | None
    new_step: int | None
    means: Sequence[StepMeans]
    monitor: MonitorPart | None


@dataclass(frozen=True)
class Document:
    """Everything that is shown of what is served.

    Parameters
    ----------
    title : str
        Its name.
    kind : str
        What it is, such as "release".
    target : str
        What the tolerances are: "alpha" or "promise".
    measure : str
        What the path is about: "share", or "beta".
    number : int
        The number of the present step.
    value : float
        What is in force now: 0 while an alarm stands.
    state : State
        The same in sentences.
    promise : Sentences
        What is promised now.
    progress : Progress
        How far the present step is.
    path : sequence of Point
        The last steps in order.
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
    """

    title: str
    kind: str
    target: str
    measure: str
    number: int
    value: float
    state: State
    promise: Sentences
    progress: Progress
    path: Sequence[Point]
    left_out: int
    guardrails: Sequence[Guardrail]
    alarms: Sequence[Mapping[str, Any]]
    acts: Sequence[Mapping[str, Any]]
    recent: Sequence[Mapping[str, Any]]
    assumptions: Sequence[Mapping[str, Any]]

    def parts(self) -> dict[str, Any]:
        """Convert to plain values by name; numbers that JSON cannot have are None.

        Returns
        -------
        dict
            The fields by name.
        """
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


class Watched(Protocol):
    """What a dashboard stands in front of."""

    def look(self) -> Document:
        """Read what is new, in a thread; a StoreError if the store does not answer."""
        ...


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{SHOWN_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
