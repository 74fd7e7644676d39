"""The settings that the arguments of a release ask for."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta

from tether.rounds.releases.release_settings import (
    GuardrailLike,
    Log,
    ReleaseSettings,
    counts_of_log,
    limits_of,
    step_length,
)
from tether.rounds.run_settings import silence_limits
from tether.rounds.store.queries import now

DEFAULT_RELEASE_SILENCE = 10_000
"""How many keys without a loss raise an alarm, unless the user says otherwise."""
SALT_BYTES = 16


def given_settings(
    guardrails: Mapping[str, GuardrailLike] | None,
    *,
    old: Log | None,
    promise: bool,
    confidence: float | None,
    keys_per_step: int | None,
    step_duration: float | timedelta | None,
    wait: int,
    alarm_risk: Mapping[str, float] | None,
    false_alarm_probability: float,
    max_silence: int | timedelta | None,
    salt: bytes | None,
) -> ReleaseSettings | None:
    """The settings of a new release; None without guardrails, where those of the store hold."""
    if salt is not None and not isinstance(salt, bytes):
        raise TypeError(f"salt must be bytes, got {salt!r}")
    if not isinstance(promise, bool):
        raise TypeError(
            f"promise must be True or False, got {promise!r}: the numbers are those in guardrails"
        )
    if guardrails is None:
        _require_none(
            old=old,
            promise=promise or None,
            confidence=confidence,
            keys_per_step=keys_per_step,
            step_duration=step_duration,
            wait=wait or None,
            alarm_risk=alarm_risk,
            salt=salt,
        )
        return None
    target, limits = limits_of(guardrails, promise, alarm_risk)
    return ReleaseSettings(
        limits=limits,
        target=target,
        confidence=confidence,
        false_alarm_probability=false_alarm_probability,
        created=now(),
        salt=(secrets.token_bytes(SALT_BYTES) if salt is None else salt).hex(),
        wait=wait,
        log=None if old is None else counts_of_log(old, limits),
        **step_length(keys_per_step, step_duration),
        **silence_limits(max_silence),
    )


def _require_none(**given: object) -> None:
    """Refuse settings without guardrails: an existing release is opened with its own."""
    named = [name for name, each in given.items() if each is not None]
    if named:
        raise ValueError(
            f"{named[0]} is given without guardrails: name these too, or open an existing release "
            f"with the settings that it has"
        )
