"""The settings of a release: fixed when its store is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core import validate
from tether._core.arrays import Floats, plain_array, shown
from tether._core.validate import loss_hint
from tether._core.words import AssumptionWarning, warn_user
from tether.release.arm_counts import ArmCounts
from tether.release.assignment import LONGEST_SALT
from tether.release.guardrail import Guardrail
from tether.release.least_rows import least_old_rows
from tether.release.old_rows_needed import usual_first_rows
from tether.rounds.limits import Limit, check_names, default_alarm_risk
from tether.rounds.releases.described_settings import compared_settings
from tether.rounds.releases.repeated_losses import repeated_losses
from tether.rounds.run_settings import RELEASE_KIND, RunSettings

GuardrailLike = float | tuple[float, float] | Guardrail
"""A tolerance, a tolerance and the largest possible loss, or an object with both."""
Log = Mapping[str, "ArrayLike | ArmCounts"]
"""The old system's losses from before the release: one for each key, by guardrail."""


@dataclass(frozen=True, kw_only=True)
class ReleaseSettings(RunSettings):
    """Everything that the promise of a release rests on."""

    kind: str = RELEASE_KIND
    salt: str
    """Of the hash that assigns keys, in hexadecimal."""
    keys_per_step: int | None = None
    step_seconds: float | None = None
    wait: int = 0
    """How many steps after its end the rows of a step are used."""
    log: dict[str, dict[str, Any]] | None = None
    """The old system's rows from before the release: what they sum to, by guardrail."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(bytes.fromhex(self.salt)) <= LONGEST_SALT:
            raise ValueError(f"salt must have 1 to {LONGEST_SALT} bytes, got {self.salt!r}")
        if self.keys_per_step is not None and self.step_seconds is not None:
            raise ValueError("give keys_per_step or step_duration, not both")
        if self.keys_per_step is not None:
            validate.integer_at_least("keys_per_step", self.keys_per_step)
        if self.step_seconds is not None:
            validate.number(
                "step_duration", self.step_seconds, above=1, below=np.inf, including=(1,)
            )
        validate.integer_at_least("wait", self.wait, 0)
        if self.confidence is not None and self.target == "promise":
            raise ValueError("with a confidence alpha itself is promised: leave out promise=True")
        if self.log is not None and set(self.log) != set(self.limits):
            raise ValueError(
                f"old must have losses for the guardrails {sorted(self.limits)}, got "
                f"{sorted(self.log)}"
            )
        for name, each in self.old_log.items():
            each.worst_total(self.limits[name].bound)

    def check_same(self, stored: RunSettings, store: str, *, free: tuple[str, ...] = ()) -> None:
        """Refuse a store that has a release with other settings, except the `free` ones."""
        assert isinstance(stored, ReleaseSettings)
        if not any(self.differences(stored, free)):
            return
        asked, held = compared_settings(self, stored, free)
        raise ValueError(
            f"{store} already holds a release of: {held}. You asked for: {asked}. To open it, "
            f"leave the settings out; for a second release use another file or schema"
        )

    @property
    def old_log(self) -> dict[str, ArmCounts]:
        """The rows from before the release; none without a log."""
        if self.log is None:
            return {name: ArmCounts(0, 0.0) for name in self.limits}
        return {name: ArmCounts(**each) for name, each in self.log.items()}

    @property
    def collects_old_rows(self) -> bool:
        """Whether the rows of the first step are all that the old system's bound is ever from."""
        return self.log is None and self.confidence is None

    @property
    def least_first_rows(self) -> int:
        """How many rows a first step that collects them needs, however long it takes; else 0."""
        if not self.collects_old_rows:
            return 0
        if self.step_seconds is None:
            return least_old_rows(self.guardrails)
        return usual_first_rows(self.guardrails)

    def check_first_step(self) -> None:
        """Refuse a new release whose first step has too few keys for any share above 0."""
        least = self.least_first_rows
        if self.keys_per_step is not None and self.keys_per_step < least:
            raise ValueError(
                f"keys_per_step must be at least {least:,} for these guardrails, got "
                f"{self.keys_per_step:,}: only the keys of the first step say how good the old "
                f"system is, and with fewer the new one could never have a key. With "
                f"{usual_first_rows(self.guardrails):,} an old system with half of the tolerated "
                f"risk passes in 95 % of releases. Or give the old system's losses from before the "
                f"release"
            )

    @property
    def salt_bytes(self) -> bytes:
        """The salt as the hash takes it."""
        return bytes.fromhex(self.salt)


def limits_of(
    guardrails: Mapping[str, GuardrailLike], promise: bool, alarm_risk: Mapping[str, float] | None
) -> tuple[str, dict[str, Limit]]:
    """What the tolerances are, "alpha" or "promise", and the limits that guardrails set."""
    if not isinstance(guardrails, Mapping):
        raise TypeError(f"guardrails must map names to tolerances, got {guardrails!r}")
    check_names("guardrails", guardrails)
    made = {name: _guardrail(name, each, promise) for name, each in guardrails.items()}
    targets = {"alpha" if each.promise is None else "promise" for each in made.values()}
    if len(targets) > 1:
        raise ValueError("guardrails must all have an alpha, or all a promise; got both")
    if not isinstance(alarm_risk, Mapping | None):
        raise TypeError(f"alarm_risk must map guardrails to risks, got {alarm_risk!r}")
    unknown = set(alarm_risk or {}) - set(made)
    if unknown:
        raise ValueError(f"alarm_risk must name guardrails {sorted(made)}, got {sorted(unknown)}")
    risks = {name: default_alarm_risk(each.tolerated, each.bound) for name, each in made.items()}
    risks |= alarm_risk or {}
    limits = {
        name: Limit(float(each.tolerated), float(each.bound), float(risks[name]))
        for name, each in made.items()
    }
    return targets.pop(), limits


def counts_of_log(log: Log, limits: Mapping[str, Limit]) -> dict[str, dict[str, Any]]:
    """The old system's log as it is kept: rows, their sum, and how many are not known (NaN)."""
    if not isinstance(log, Mapping):
        raise TypeError(f"old must map guardrails to losses, got {type(log).__name__}")
    counts = {}
    for name, losses in log.items():
        each = losses
        if not isinstance(each, ArmCounts):
            if name not in limits:
                raise ValueError(f"old must have losses for {sorted(limits)}, got {name!r}")
            validate.reject_masked(f"old[{name!r}]", losses)
            values = plain_array(losses)
            if values.dtype.kind not in "fiub":
                raise TypeError(
                    f"old[{name!r}] must hold numbers, got {shown(losses)}"
                    f"{loss_hint(values.reshape(-1).tolist())}"
                )
            values = values.astype(np.float64)
            if values.ndim == 0:
                raise ValueError(
                    f"old[{name!r}] must have one loss for each key, or be ArmCounts(rows, total), "
                    f"got {losses!r:.80}: a mean does not say how many keys it is of"
                )
            known = values[~np.isnan(values)]
            bound = limits[name].bound
            if values.ndim != 1 or (known < 0).any() or (known > bound).any():
                hint = _hint_of_outside(known) if bound == 1 and values.ndim == 1 else ""
                raise ValueError(
                    f"old[{name!r}] must be one loss in [0, {bound:g}] per key, got "
                    f"{shown(losses)}{hint}"
                )
            if (found := repeated_losses(values)) is not None:
                warn_user(
                    f"old[{name!r}] must have one loss for each key, and its {len(values):,} rows "
                    f"are {found[0]:,} rows {found[1]:,} times: leave the repeats out",
                    AssumptionWarning,
                )
            each = ArmCounts(len(values), float(known.sum()), len(values) - len(known))
            if each.pending:
                warn_user(
                    f"old[{name!r}] has {each.rows:,} rows{each.missing_text(bound)}: an empty "
                    f"value or NaN is no outcome. A release keeps the rows that it began with, so "
                    f"leave out those whose outcome will never be known, if that does not depend "
                    f"on the outcome",
                    AssumptionWarning,
                )
        counts[name] = {"rows": each.rows, "total": float(each.total), "pending": each.pending}
    return counts


def _hint_of_outside(known: Floats) -> str:
    """What losses may be that are not from 0 to 1; empty if they look like nothing known."""
    if known.min() >= 100 and known.max() < 600 and (known == np.floor(known)).all():
        return (
            f" with values up to {known.max():g}: are these HTTP statuses? Write 1 for one that is "
            f"a failure, such as 500 and above, and 0 for any other"
        )
    if known.min() >= 0 and known.max() <= 100:
        return (
            f" with values up to {known.max():g}: are these percentages? 5 % is 0.05. Or state the "
            f"largest possible loss beside what is tolerated"
        )
    return ""


def step_length(
    keys_per_step: int | None, step_duration: timedelta | float | None
) -> dict[str, Any]:
    """The two settings that say when a step ends."""
    seconds = None
    if isinstance(step_duration, timedelta):
        seconds = step_duration.total_seconds()
    elif step_duration is not None:
        seconds = validate.real("step_duration", step_duration)
    return {"keys_per_step": keys_per_step, "step_seconds": seconds}


def _guardrail(name: str, given: GuardrailLike, promise: bool) -> Guardrail:
    if isinstance(given, Guardrail):
        return given
    values = given if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(values) <= 2:
        raise ValueError(
            f"guardrails[{name!r}] must be a tolerance, or a tolerance and the largest loss, got "
            f"{given!r}"
        )
    bound = values[1] if len(values) == 2 else 1.0
    try:
        return Guardrail(**{"promise" if promise else "alpha": values[0]}, bound=bound)
    except (TypeError, ValueError) as error:
        raise type(error)(f"guardrails[{name!r}]: {error}") from None
