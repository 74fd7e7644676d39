"""The settings that every kind of run has: what is tolerated, and when an alarm is raised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self

import numpy as np

from tether._core import validate
from tether.release.guardrail import Guardrail
from tether.rounds.limits import Limits, as_arguments, check_names, limits_from_dict

TARGETS = ("alpha", "promise")
ROUNDS_KIND, RELEASE_KIND = "rounds", "release"
"""What a store can hold: the rounds of a controller, or a release."""
RAMP_FAMILY = "ramp"
"""The family of a controller whose rounds are released by ramp instead of tethered."""
KIND_SETTING = "kind"
"""The name of the setting that says which."""
_OWNERS = {ROUNDS_KIND: "tether.Controller", RELEASE_KIND: "tether.Release"}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What monitors and people need to know of a run, whatever it does."""

    limits: Limits
    false_alarm_probability: float
    created: str
    kind: str = ROUNDS_KIND
    seed: int = 0
    target: str = "alpha"
    """What the alphas are: those of every calibration, or the promises that it is to state."""
    confidence: float | None = None
    """The probability over logs of each promise, where it is not in expectation."""
    max_silent_actions: int | None = None
    """How many actions without a loss raise an alarm."""
    max_silent_seconds: float | None = None
    """How many seconds without a loss raise an alarm."""

    def __post_init__(self) -> None:
        validate.choice("kind", self.kind, tuple(_OWNERS))
        validate.choice("target", self.target, TARGETS)
        check_names(self.target, self.limits)
        for name, limit in self.limits.items():
            limit.check(self.target, name)
        if self.confidence is not None:
            validate.number("confidence", self.confidence, above=0, below=1)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, got {self.seed!r}")
        validate.number("false_alarm_probability", self.false_alarm_probability, above=0, below=1)
        if self.max_silent_actions is not None:
            validate.integer_at_least("max_silence", self.max_silent_actions)
        if self.max_silent_seconds is not None:
            validate.number("max_silence", self.max_silent_seconds, above=0, below=np.inf)

    @property
    def is_ramp(self) -> bool:
        """Whether a share decides which of two systems or policies answers."""
        return self.kind == RELEASE_KIND

    @property
    def guardrails(self) -> dict[str, Guardrail]:
        """The limits as `ramp_share` takes them."""
        return {
            name: Guardrail(**{self.target: limit.alpha}, bound=limit.bound)
            for name, limit in self.limits.items()
        }

    @property
    def max_silence(self) -> int | timedelta | None:
        """How many actions, or how much time, without a loss raise an alarm."""
        if self.max_silent_seconds is not None:
            return timedelta(seconds=self.max_silent_seconds)
        return self.max_silent_actions

    def to_dict(self) -> dict[str, Any]:
        """As the store keeps them."""
        return asdict(self)  # limits too

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """From the stored entries, which may include others."""
        names = cls.__dataclass_fields__
        given = {name: stored[name] for name in names if name in stored}
        return cls(**given | {"limits": limits_from_dict(stored["limits"])})

    def check_same(self, stored: RunSettings, store: str, *, free: tuple[str, ...] = ()) -> None:
        """Refuse a store that was created with other settings, except the `free` ones."""
        for name, given, kept in self.differences(stored, free):
            raise ValueError(
                f"{name} is {given!r} but {store} was created with {kept!r}: a run keeps its "
                f"settings; use a new store for new ones"
            )

    def differences(
        self, stored: RunSettings, free: tuple[str, ...]
    ) -> Iterator[tuple[str, Any, Any]]:
        """The settings that are not those of another run, except the `free` ones."""
        own, theirs = (
            {**each.to_dict(), **as_arguments(each.target, each.limits)} for each in (self, stored)
        )
        for name in own | theirs:
            given, kept = own.get(name), theirs.get(name)
            if name not in ("seed", "created", "limits", *free) and kept != given:
                yield name, given, kept


def decides_shares(stored: Mapping[str, Any]) -> bool:
    """Whether the rounds of a run with these settings decide shares, and not betas."""
    return stored.get(KIND_SETTING) == RELEASE_KIND or stored.get("family") == RAMP_FAMILY


def silence_limits(max_silence: int | timedelta | None) -> dict[str, Any]:
    """The two settings that the argument `max_silence` sets."""
    if isinstance(max_silence, timedelta):
        return {"max_silent_seconds": max_silence.total_seconds()}
    return {"max_silent_actions": max_silence}


def check_kind(stored: Mapping[str, Any], kind: str, store: str) -> None:
    """Refuse a store that holds something of another kind."""
    found = stored.get(KIND_SETTING, ROUNDS_KIND)
    if found != kind:
        what = {ROUNDS_KIND: "the rounds of a controller", RELEASE_KIND: "a release"}
        raise ValueError(
            f"{store} holds {what.get(found, repr(found))}: open it with "
            f"{_OWNERS.get(found, 'the program that made it')}"
        )
