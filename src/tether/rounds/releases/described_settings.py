"""The settings of a release in words, so that two of them can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tether.rounds.limits import Limit, default_alarm_risk

if TYPE_CHECKING:
    from tether.rounds.releases.release_settings import ReleaseSettings

ALWAYS_DESCRIBED = ("guardrails", "steps")
"""What is named of a release whether it differs or not."""


def step_text(settings: ReleaseSettings) -> str:
    """How long a step is, in words."""
    if settings.keys_per_step is not None:
        return f"steps of {settings.keys_per_step:,} keys"
    if settings.step_seconds is None:
        return "steps that are ended by hand"
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if settings.step_seconds % seconds == 0:
            return f"steps of {settings.step_seconds / seconds:g}{unit}"
    return f"steps of {settings.step_seconds:g}s"


def compared_settings(
    given: ReleaseSettings, stored: ReleaseSettings, free: tuple[str, ...]
) -> tuple[str, str]:
    """Both in words: the guardrails, the length of steps, and what else differs and is not free."""
    own, theirs = _parts(given), _parts(stored)
    names = [
        name
        for name in own
        if name in ALWAYS_DESCRIBED or (name not in free and own[name] != theirs[name])
    ]
    return ", ".join(own[name] for name in names), ", ".join(theirs[name] for name in names)


def _unusual(limit: Limit) -> str:
    """What is not as it is by default."""
    bound = "" if limit.bound == 1 else f" of losses up to {limit.bound:g}"
    usual = default_alarm_risk(limit.alpha, limit.bound)
    risk = "" if limit.alarm_risk == usual else f" and alarm_risk {limit.alarm_risk:g}"
    return bound + risk


def _parts(settings: ReleaseSettings) -> dict[str, str]:
    """Each setting in words, by name."""
    guardrails = ", ".join(
        f"{name} with {settings.target} {limit.alpha:g}{_unusual(limit)}"
        for name, limit in settings.limits.items()
    )
    plain: dict[str, Any] = {
        "confidence": settings.confidence,
        "wait": settings.wait,
        "false_alarm_probability": settings.false_alarm_probability,
        "max_silence": settings.max_silence,
        "salt": f"{settings.salt[:4]}…",
    }
    parts = {"guardrails": guardrails, "steps": step_text(settings)}
    parts |= {name: f"{name} {value}" for name, value in plain.items()}
    log = "no losses of the old system from before"
    if settings.log is not None:
        log = ", ".join(
            f"{each.rows:,} losses of the old system for {name} with a sum of {each.total:g}"
            for name, each in settings.old_log.items()
        )
    return parts | {"log": log}
