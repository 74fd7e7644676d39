"""Aiming a round: fit loss models on training rows, tilt, and choose what is to be calibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether.aiming.aim_at_alpha import aim as aim_policy
from tether.aiming.aimed_policy import AimedPolicy
from tether.aiming.candidates import PLAIN, Candidate, aimed_candidates
from tether.aiming.choose_candidate import MIN_ROWS_TO_CHOOSE, Choice, choose
from tether.aiming.predicted_loss import predicted_losses
from tether.aiming.training_rows import LoggedRows
from tether.control.family import Family
from tether.policies.policy import FinitePolicy, Policy, is_finite
from tether.rounds.aims.aim_record import AimRecord
from tether.rounds.aims.aim_settings import AimSettings
from tether.rounds.aims.stored_aim import served_form
from tether.rounds.aims.training_log import (
    TrainingLog,
    last_actions,
    prediction_contexts,
    read_training_log,
)
from tether.rounds.policy_registry import PolicyRegistry
from tether.rounds.settings import Settings
from tether.rounds.store.queries import storable_text
from tether.rounds.store.rows import Rows
from tether.rounds.stored_policies import SavedPolicy, save_policy_content

AIM_STREAM = 4409
"""Part of the seed of fits and choices, so that their stream differs from any other."""
AIMED_AT_ALPHA = "aimed × 1"
"""The name of the candidate that is predicted to lose alpha."""


@dataclass(frozen=True)
class RoundAim:
    """What a round calibrates in place of the `given` policy, and what is known of it so far.

    `stored` is what is saved: the chosen candidate, with all loss models beside it.
    """

    given: Policy
    policy: Policy
    stored: AimedPolicy
    contexts: Any
    record: AimRecord

    def served_by(
        self, serving: Policy, plain_log_beta: float | None
    ) -> tuple[AimRecord, SavedPolicy]:
        """The record of the round, given the policy that serves it, and what is to be stored."""
        record = replace(self.record, plain_log_beta=plain_log_beta)
        if not self.stored.loss_models:
            return record, SavedPolicy()
        saved = save_policy_content(self.stored, given=self.given)
        predicted = predicted_losses(serving, self.stored.loss_models, self.contexts)
        problem = storable_text(saved.problem)
        return replace(record, predicted=predicted, digest=saved.digest, problem=problem), saved


def aim_round(
    aim: AimSettings,
    settings: Settings,
    family: Family,
    rows: Rows,
    registry: PolicyRegistry,
    safe: Policy,
    given: Policy,
    number: int,
    retired: frozenset[int] = frozenset(),
) -> RoundAim:
    """Aim the policy of a round by its training rows, if that is expected to earn more."""
    checked = finite_policy(given)
    rng = np.random.default_rng([settings.seed, number, AIM_STREAM])
    log = read_training_log(rows, list(settings.limits), registry, given, retired, rng)
    if log is None:
        return not_aimed(checked)
    models = aim.models(log.to_fit, rng, settings.limits)
    if not aim.choose:
        return aimed_at_alpha(settings, checked, models, rows, len(log.to_fit))
    calibrated = int(rows.calibration.sum())
    choice = _choose(aim, settings, family, log, models, safe, checked, calibrated, rng)
    record = AimRecord(
        candidate=choice.name,
        why=_why(choice, models),
        rows=len(log.to_fit),
        chosen_by=log.chosen_by,
        estimates=dict(choice.estimates),
    )
    return with_predictions(record, checked, choice.policy, models, rows)


def aimed_at_alpha(
    settings: Settings, given: FinitePolicy, models: dict[str, Any], rows: Rows, count: int
) -> RoundAim:
    """Tilt a policy until it is predicted to lose alpha, by loss models of `count` rows."""
    alphas = {name: limit.alpha for name, limit in settings.limits.items()}
    contexts = prediction_contexts(rows, last_actions(rows.seen))
    found = aim_policy(given, models, contexts, alphas)
    if not any(found.multipliers.values()):
        why = _why_not_tilted(models)
        return with_predictions(AimRecord(PLAIN, why, count), given, given, models, rows)
    why = "predicted to lose alpha" if found.reached else "the least loss that is predicted"
    record = AimRecord(AIMED_AT_ALPHA, why, count)
    return with_predictions(record, given, found.policy, models, rows)


def not_aimed(given: FinitePolicy) -> RoundAim:
    """Where there is nothing to learn from."""
    record = AimRecord(PLAIN, "there are no training rows yet", 0)
    return RoundAim(given, given, AimedPolicy(given, {}, {}), None, record)


def with_predictions(
    record: AimRecord, given: FinitePolicy, chosen: Any, models: dict[str, Any], rows: Rows
) -> RoundAim:
    """Complete a record with what the policies are predicted to lose."""
    seen = last_actions(rows.seen)
    contexts = prediction_contexts(rows, seen)
    record = replace(
        record,
        seen=seen,
        models={name: kind_of_model(model) for name, model in models.items()},
        multipliers=dict(getattr(chosen, "multipliers", {})),
        before=predicted_losses(given, models, contexts),
        aimed=predicted_losses(chosen, models, contexts),
    )
    stored = AimedPolicy(chosen, models, dict.fromkeys(models, 0.0))
    return RoundAim(given, served_form(chosen, given), stored, contexts, record)


def _choose(
    aim: AimSettings,
    settings: Settings,
    family: Family,
    log: TrainingLog,
    models: dict[str, Any],
    safe: Policy,
    given: FinitePolicy,
    calibrated: int,
    rng: np.random.Generator,
) -> Choice:
    rows = log.to_choose
    alphas = {name: limit.alpha for name, limit in settings.limits.items()}

    def fit(some: LoggedRows, rng: np.random.Generator) -> dict[str, Any]:
        return models if len(some) == len(rows) else aim.models(some, rng, settings.limits)

    build_policies = aimed_candidates(given, alphas, fit=fit, **aim.candidates)
    simulated: Family | str = family if family.max_draws is None else "clip"

    def build(some: LoggedRows, rng: np.random.Generator) -> Mapping[str, Any]:
        made = build_policies(some, rng)
        return {name: Candidate(each, simulated) for name, each in made.items()}

    return choose(
        build,
        safe=safe,
        contexts=rows.contexts,
        actions=rows.actions,
        losses=rows.losses,
        rewards=rows.rewards,
        alpha=alphas,
        rng=rng,
        bound={name: limit.bound for name, limit in settings.limits.items()},
        calibration_rows=max(1, min(calibrated, 10 * len(rows))),
        standard_errors=aim.standard_errors,
        logged_by=log.logged_by,
    )


def _why(choice: Choice, models: Mapping[str, Any]) -> str:
    """Why a candidate was chosen, in words."""
    if choice.name != PLAIN:
        best = choice.estimates[choice.name]
        return f"expected to earn {best.lead:.3g} ± {best.lead_error:.2g} more after calibration"
    if choice.estimates:
        return f"no candidate leads by more than {choice.standard_errors:g} standard errors"
    if choice.rows < MIN_ROWS_TO_CHOOSE and not _all_constant(models):
        return f"{choice.rows} training rows are too few to choose by"
    return _why_not_tilted(models)


def _why_not_tilted(models: Mapping[str, Any]) -> str:
    if _all_constant(models):
        return "no pattern in the losses was found"
    return "it is predicted to lose at most alpha, or as much whatever it does"


def _all_constant(models: Mapping[str, Any]) -> bool:
    return all(kind_of_model(model) == "constant" for model in models.values())


def kind_of_model(model: Any) -> str:
    """What a record says of a loss model."""
    return str(getattr(model, "kind", "given"))


def finite_policy(given: Policy) -> FinitePolicy:
    """A policy that can be aimed, or an error."""
    if not is_finite(given):
        raise TypeError(
            f"aim needs policies that list finitely many actions: run on shortlists "
            f"(tether.Shortlist), or leave aim out; got {given!r}"
        )
    return given
