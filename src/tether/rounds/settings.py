"""The settings of a run: fixed when its store is created, and the same for as long as it lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from tether._core import validate
from tether.control.families import DEFAULT_BLEND, Family
from tether.control.pose import TEST_WEIGHT_NAMES, is_bounded
from tether.rounds.limits import limits_from_arguments
from tether.rounds.policy_registry import check_stored_scores, describe_family
from tether.rounds.run_settings import (
    RAMP_FAMILY,
    ROUNDS_KIND,
    RunSettings,
    check_kind,
    silence_limits,
)
from tether.rounds.store import schema
from tether.rounds.store.database import Store
from tether.rounds.store.queries import RUN_SETTING, now, read_settings, write_settings
from tether.rounds.stored_policies import save_policy_content

if TYPE_CHECKING:
    from tether.rounds.action_space import ActionSpace

MISSING_LOSS_RULES = ("wait", "worst_case", "exclude")
AGAINST_CHOICES = ("safe", "last")
_NOT_IN_A_RAMP = {
    "test_weight": "empirical",
    "min_observed_share": 1.0,
    "normalizer_draws": None,
    "ratio_error": 1.0,
    "blend": DEFAULT_BLEND,
    "shortlist": None,
}
"""Settings that must have their default in a ramp."""


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """Everything that the promise rests on; a store is refused to callers with other settings."""

    safe: str
    family: str
    family_mark: str | None
    test_weight: str | float
    calibration_share: float
    missing: str
    min_observed_share: float
    against: str
    normalizer_draws: int | None
    shortlist: int | None = None
    """How many candidates the safe policy draws for each action; None without shortlists."""
    ratio_error: float = 1.0
    """The factor by which every importance weight may be wrong."""
    blend: float = DEFAULT_BLEND
    """The share of the safe policy in optimized policies that never take some actions."""
    actions_per_step: int | None = None
    """In a ramp, after how many actions a step ends; None if only `advance` ends it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_ramp:
            self._check_ramp()
        elif self.actions_per_step is not None:
            raise ValueError(
                f"actions_per_step is for family='ramp', got {self.actions_per_step!r} with family "
                f"{self.family!r}"
            )
        validate.number("ratio_error", self.ratio_error, above=1, below=np.inf, including=(1,))
        validate.number("blend", self.blend, above=0, below=1, including=(0,))
        if isinstance(self.test_weight, str):
            validate.choice("test_weight", self.test_weight, TEST_WEIGHT_NAMES)
        else:
            validate.number("test_weight", self.test_weight, above=0, below=np.inf)
        if not isinstance(self.safe, str) or not self.safe:
            raise ValueError(f"name must be a non-empty string, got {self.safe!r}")
        for name in ("calibration_share", "min_observed_share"):
            validate.number(name, getattr(self, name), above=0, below=1, including=(1,))
        validate.choice("missing", self.missing, MISSING_LOSS_RULES)
        validate.choice("against", self.against, AGAINST_CHOICES)
        if self.normalizer_draws is not None:
            validate.integer_at_least("normalizer_draws", self.normalizer_draws)

    @property
    def is_ramp(self) -> bool:
        """Whether rounds are released by ramp instead of tethered."""
        return self.family == RAMP_FAMILY

    @property
    def by_who_acted(self) -> bool:
        """Whether rows are weighted by the policy that acted, and not by the mixture of all.

        A certificate and the soft chain need weights that are unbiased given the past.
        """
        return self.confidence is not None or self.target == "promise"

    def _check_ramp(self) -> None:
        """Refuse settings that a ramp does not have: it has no importance weights."""
        if self.actions_per_step is not None:
            validate.integer_at_least("actions_per_step", self.actions_per_step)
        for name, value in _NOT_IN_A_RAMP.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} does not exist for family='ramp', which has no likelihood ratios: "
                    f"leave it out, got {getattr(self, name)!r}"
                )
        if self.missing != "worst_case":
            raise ValueError(
                f"missing must be 'worst_case' for family='ramp', got {self.missing!r}: its steps "
                f"do not wait, and a loss that is not known counts as the bound"
            )
        if self.confidence is not None and self.target == "promise":
            raise ValueError("with a confidence a ramp promises alpha itself: give alpha")


def settings_from_arguments(
    family: Family | None,
    context_score: object,
    *,
    alpha: float | Mapping[str, float] | None,
    promise: float | Mapping[str, float] | None,
    bound: float | Mapping[str, float],
    alarm_risk: float | Mapping[str, float] | None,
    test_weight: str | float,
    max_silence: int | timedelta | None,
    missing: str | None,
    **others: Any,
) -> Settings:
    """Settings from the arguments of a controller; `others` are settings already.

    Without a family rounds are released by ramp.
    """
    target, limits = limits_from_arguments(alpha, promise, bound, alarm_risk)
    if context_score is not None and not callable(context_score):
        raise TypeError(f"context_score must be a function of contexts, got {context_score!r}")
    if family is not None and test_weight == "analytic" and not is_bounded(family):
        raise ValueError(
            f"test_weight 'analytic' does not exist for family {family.name!r}, whose weights are "
            f"unbounded: use 'empirical' or a number"
        )
    return Settings(
        limits=limits,
        target=target,
        family=RAMP_FAMILY if family is None else family.name,
        family_mark=None if family is None else describe_family(family),
        missing=missing or ("worst_case" if family is None else "wait"),
        test_weight=test_weight,
        created=now(),
        **silence_limits(max_silence),
        **others,
    )


def stored_settings(store: Store, given: Settings, space: ActionSpace) -> Settings:
    """Check the safe policy; the stored settings, or the given ones if the store is new."""
    own_fingerprint = space.fingerprint
    with store.reading() as connection:
        stored = read_settings(connection)
    if not stored:
        saved = save_policy_content(space.given)
        with store.writing(exclusive=True) as writer:
            stored = read_settings(writer.connection)
            if not stored:
                saved.write(writer)
                kept = {"safe_policy": saved.digest, "safe_policy_problem": saved.problem}
                kept[RUN_SETTING] = uuid4().hex
                entries = {**given.to_dict(), "fingerprint": own_fingerprint, **kept}
                write_settings(writer, entries)
                return given
    check_kind(stored, ROUNDS_KIND, store.name)
    settings = Settings.from_dict(stored)
    given.check_same(settings, store.name)
    known_fingerprint = stored["fingerprint"]
    if own_fingerprint and known_fingerprint and own_fingerprint != known_fingerprint:
        raise ValueError(
            f"the safe policy is not the one that {store.name} was created with: its fingerprint "
            f"is {own_fingerprint} but the store has {known_fingerprint}"
        )
    if not settings.is_ramp:
        check_stored_scores(store, settings.safe, space.safe, "safe", schema.actions.c.log_safe)
    return settings
