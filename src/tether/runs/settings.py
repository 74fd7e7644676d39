"""The settings of a run: fixed when its store is created, and the same for as long as it lasts.

They may be tightened by an act (`Run.tighten`); loosening needs a new run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tether._core import validate
from tether.runs.shares import GROWTH_FACTOR, Guardrail

RELEASE, CONTROLLER = "release", "controller"
RAMP = "ramp"
"""The family of a controller whose policies are released by ramp."""


@dataclass(frozen=True)
class OldSystem:
    """What is known of the old system beforehand: rows and their sum, or a declared bound."""

    rows: int = 0
    total: float = 0.0
    declared: float | None = None


@dataclass(frozen=True)
class Settings:
    """Everything that was decided when the run began; see `Controller` and `Release`."""

    kind: str
    limits: dict[str, Guardrail]
    created: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), kw_only=True
    )
    rule: str = "promise"
    confidence: float | None = None
    seed: int = 0
    stop: float | None = 0.05
    growth: float = GROWTH_FACTOR
    units_per_step: int | None = None
    step_seconds: float | None = None
    outcome_deadline: float | None = None
    sticky: bool = True
    salt: str = ""
    old: dict[str, OldSystem] = field(default_factory=dict)
    safe: str = ""
    family: str = "clip"
    calibration_share: float = 0.5
    missing: str = "wait"
    against: str = "safe"
    shortlist: int | None = None
    watches_contexts: bool = False
    max_silence: int | None = None
    max_silent_seconds: float | None = None
    signer: str | None = None

    @property
    def decides_shares(self) -> bool:
        """Whether the level of a unit is a share; else it is a log beta."""
        return self.kind == RELEASE or self.family == RAMP

    def check_same(self, given: Settings, store: str, free: tuple[str, ...] = ()) -> None:
        """Refuse to open a run with other settings than it was created with."""
        for each in fields(self):
            stored, now = getattr(self, each.name), getattr(given, each.name)
            if each.name not in (*free, "created") and stored != now:
                name = "what is tolerated" if each.name == "limits" else each.name
                raise ValueError(
                    f"{name} is {now!r}, but {store} was created with {stored!r}: leave it "
                    f"out, or begin a new run in another store"
                )

    def tightened(self, **changes: Any) -> Settings:
        """The same settings with smaller tolerances; anything looser is refused."""
        limits, rest = dict(self.limits), dict[str, Any]()
        for name, value in changes.items():
            if name in limits:
                limit = limits[name]
                relative = "delta" if limit.delta else "ratio"
                part = relative if limit.is_relative else "tolerated"
                smaller = _tighter(name, getattr(limit, part), value)
                limits[name] = replace(limit, **{part: smaller})
            elif name in ("growth", "outcome_deadline"):
                rest[name] = _tighter(name, getattr(self, name), value)
            else:
                raise ValueError(
                    f"{name!r} cannot be tightened: expected one of {list(limits)}, growth or "
                    f"outcome_deadline"
                )
        return replace(self, limits=limits, **rest)


def _tighter(name: str, stored: float | None, value: float) -> float:
    checked = validate.number(name, value, above=0, below=float("inf"))
    if stored is not None and checked > stored:
        raise ValueError(
            f"{name} is {stored:g} and can only be tightened, got {checked:g}: loosening needs a "
            f"new run, since what was promised so far rests on it"
        )
    return checked


def rows_or_seconds(name: str, given: int | timedelta | None) -> tuple[int | None, float | None]:
    """A limit as a number of rows, or as seconds; neither with None."""
    if given is None:
        return None, None
    if isinstance(given, timedelta):
        return None, validate.number(name, given.total_seconds(), above=0, below=1e9)
    return validate.integer(name, given, 1), None
