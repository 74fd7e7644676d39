"""The beta of the next round: a pure function of what is stored.

A round is decided on the rows and losses of a state, on the scores that policies gave to the
calibration rows and on draws, all of which are stored as events before the round. The controller
and verification call the same function; nothing else decides.

Past policies enter as the mixture that produced the rows, each with its own beta and normalizing
constant and weighted by its number of rows. With a promise or a confidence every row is weighted by
the policy that acted in it, whose weights are unbiased given the past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether._core.arrays import Booleans, Floats
from tether._core.contexts import labels
from tether._core.records import encode
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration, LossResult, why_not_useful
from tether.control.columns import PolicyPath
from tether.control.families import Family, blend_scores, find_family
from tether.control.log import Log, Proposals
from tether.policies.normalizer import (
    Normalizer,
    clipped_normalizer,
    density_with_error,
    exact_log_psi,
)
from tether.policies.policy import picked
from tether.runs.errors import LossesMissingError
from tether.runs.log_rows import Contents
from tether.runs.settings import Settings
from tether.runs.state import SAFE, State, Unit

SCORE, TABLE, PLACE, NORMALIZER = "score", "table", "place", "normalizer"
"""Scores of calibration rows: of the action that was taken; of every action, and which of them was
taken; log ψ in the row's context, and its error."""
PATH, DENSITY = "path", "density"
"""Along a path: scores of the safe policy, the optimized one and those between them; the density of
a past round's policy."""
CHAIN_STREAM = 104729
"""Part of the seed of the draw of a promise."""
LARGEST_DENSITY_FACTOR = 1.25
"""A larger error of past policies' densities is refused."""
SAME_ROWS = 0.99
"""A calibration whose rows had this share of the rows in use was one on the same rows."""
CALIBRATED = ("beta", "exists", "useful", "family", "blend", "confidence")
MEASURED = ("effective_sample_size", "acceptance", "changed", "max_weight")
"""What the event of a round says of its calibration."""
CURVE_POINTS = 100
CHOOSE_ON_TRAINING = (
    "a candidate that is kept because of its beta breaks the promise: choose among candidates on "
    "training rows (tether.choose)"
)


class Density(NamedTuple):
    """The log-density of a policy at the calibration rows, and the standard error of each."""

    log: Floats
    error: Floats


def rows_in_use(known: State) -> tuple[Booleans, dict[str, Floats], str]:
    """Which calibration rows are used, their losses, and a note on those without a loss."""
    settings, where = known.given, known.calibration_rows
    served, answers = known.served[where], known.rows["answers"][where]
    used = (answers > 0) & ~np.isin(served, list(known.retired))
    losses = {name: known.loss(name)[where] for name in settings.limits}
    pending = used & ~known.observed[where]
    note = ""
    if pending.any():
        how = "are left out" if settings.missing == "exclude" else "count as the worst loss"
        note = f"{pending.sum():,} of {used.sum():,} calibration rows without a loss {how}"
        if settings.missing == "wait":
            raise LossesMissingError(
                f"{pending.sum():,} of {used.sum():,} calibration rows have no loss yet, and "
                f"missing='wait': observe them (`run.pending()`), withdraw actions that were never "
                f"carried out, or serve the safe policy meanwhile with `run.begin()`"
            )
        if settings.missing == "exclude":
            used = used & ~pending
        for name, limit in settings.limits.items():
            losses[name] = np.where(np.isnan(losses[name]), limit.bound, losses[name])
    return used, losses, note


class Evidence:
    """What a round is decided on: rows and losses of a state, and scores and draws that are stored.

    `subject` names the policy, and `given` says what it states of itself (`approximate`,
    `ratio_error`, the `log_betas` of a path).
    """

    def __init__(
        self, known: State, contents: Contents, subject: str, given: dict[str, Any]
    ) -> None:
        self.known, self.contents, self.subject, self.given = known, contents, subject, given
        self.number, self.where = len(known.units) + 1, known.calibration_rows
        self.used, self.losses, self.note = rows_in_use(known)
        # whether rows are weighted by the policies that acted, not by their mixture
        self.by_who_acted = known.given.confidence is not None or known.given.rule == "promise"
        self.served = known.served[self.where][self.used]
        numbers, counts = np.unique(self.served, return_counts=True)
        self.counts: dict[int, int] = dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    @property
    def past(self) -> list[int]:
        """The rounds whose densities are needed: a reference before those measured by it."""
        found: set[int] = set()
        for number in (*self.counts, self.known.reference):
            while number != SAFE and number not in found:
                found.add(number)
                number = self.known.units[number - 1].reference
        return sorted(found)

    @property
    def looks(self) -> int:
        """How many calibrations there are on the same rows; of a policy on exactly these, one."""
        rows = len(self.served)
        same = {each for each in self.known.looks if each[1] >= SAME_ROWS * rows}
        return 1 + len(same - {(self.subject, rows)})

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of the calibration; to try again on the same rows is the same draw.

        Of several on the same rows the first spends δ, and number k spends δ/(k·(k + 1)): all of
        them together at most 1.5 δ, whichever of them is kept.
        """
        settings, looks = self.known.given, self.looks
        confidence = settings.confidence
        if confidence is not None and looks > 1:
            confidence = 1 - (1 - confidence) / (looks * (looks + 1))
        draw = np.random.default_rng([settings.seed, CHAIN_STREAM])
        return {
            settings.rule: {name: limit.tolerated for name, limit in settings.limits.items()},
            "seed": int(draw.integers(2**63)),
            "confidence": confidence,
            "looks": looks if settings.rule == "promise" and settings.confidence is None else 1,
            "bound": {name: limit.bound for name, limit in settings.limits.items()},
            "family": settings.family,
        }

    @cached_property
    def log(self) -> Log:
        """Every row in use under the mixture that produced the rows."""
        known, contents, used = self.known, self.contents, self.used
        settings, reference, given = known.given, known.reference, self.given
        kind = next(each for each in (PATH, TABLE, SCORE) if contents.scored(each, self.number))
        scores = self._stored(kind, self.number)[used]
        densities = self._densities(kind)
        tables = {"safe": densities[reference].log}
        tables["optimized"] = scores[:, 1] if kind == PATH else scores
        check_support(tables["safe"], tables["optimized"], reference)
        place = self._stored(PLACE, SAFE)[used] if kind == TABLE else None
        columns: dict[str, Any] = {}
        if set(self.counts) != {reference}:
            tables["mix"] = _mixture(densities, self.counts)
            if self.by_who_acted:
                who_acted = self._who_acted(densities, exact_limits=kind != PATH)
                tables["logged"], columns["log_base_limit"] = who_acted
        for name, values in tables.items():
            columns[f"log_{name}"] = values if place is None else picked(values, place)
        if place is not None:
            columns |= {f"log_{name}_all": values for name, values in tables.items()}
        contexts, _ = contents.rows(self.where[used])
        if not isinstance(contexts, int):
            columns["context"] = labels(contexts)
        share = self.counts.get(reference, 0) / len(self.served)
        if kind == PATH:
            columns["policy_path"] = PolicyPath(settings.family, given["log_betas"], scores[:, 2:])
            share = 0.0  # its weights have no bound in which it could enter
        error = 1.0 if kind == TABLE else self._ratio_error(densities)
        if not error <= LARGEST_DENSITY_FACTOR and given.get("approximate") is None:
            raise ValueError(
                f"densities of past policies are estimates, some off by a factor of {error:.3g}, "
                f"where {LARGEST_DENSITY_FACTOR:g} is accepted: a tether.Shortlist makes them exact"
            )
        return Log(
            {name: loss[used] for name, loss in self.losses.items()},
            **columns,
            safe_share=share or None,
            warnings=[given["approximate"]] if given.get("approximate") else [],
            ratio_error=float(given.get("ratio_error", 1.0)) * error,
        )

    @property
    def proposals(self) -> Proposals | None:
        """The draws for the round; None where tables make them needless."""
        columns, path = self.contents.draws, None
        if columns is None:
            return None
        if (log_path := columns.get("log_path")) is not None:
            family, betas = self.known.given.family, self.given["log_betas"]
            path = PolicyPath(family, betas, log_path, drawn_at=columns["drawn_at"])
        return Proposals(
            columns["log_safe"],
            columns["log_optimized"],
            context=columns.get("context"),
            log_mix=columns.get("log_mix"),
            source=np.where(columns["from_safe"], "safe", "optimized"),
            policy_path=path,
        )

    # ---- densities of past policies -----------------------------------------------------------

    def _stored(self, name: str, number: int) -> NDArray[Any]:
        return self.contents.scores(name, number, len(self.where))

    def _densities(self, kind: str) -> dict[int, Density]:
        """The density of the safe policy and of every round's that is needed, in rows in use."""
        exact = np.zeros(len(self.where))
        log_safe = self.contents.own_scores("log_safe", self.where)
        if kind == TABLE:
            log_safe = self._stored(TABLE, SAFE)
        found = {SAFE: Density(log_safe, exact)}
        for past in self.past:
            if kind == PATH:  # what is stored is a density already
                found[past] = Density(self._stored(DENSITY, past), exact)
            else:
                unit = self.known.units[past - 1]
                found[past] = self._density(unit, self._stored(kind, past), found[unit.reference])
        return {k: Density(each.log[self.used], each.error[self.used]) for k, each in found.items()}

    def _density(self, unit: Unit, scores: Floats, reference: Density) -> Density:
        """The density of a round's policy, from its scores and those of its reference."""
        decision, log_beta = unit.decision, unit.level
        family: Family = find_family(decision["family"])
        both = reference.log, blend_scores(scores, reference.log, decision["blend"])
        if not needs_normalizer(family, log_beta):
            return Density(family.log_density(*both, log_beta, 0.0), reference.error)
        if scores.ndim == 2:
            log_psi = exact_log_psi(*both, family, log_beta)[:, None]
            return Density(family.log_density(*both, log_beta, log_psi), reference.error)
        if self.contents.scored(NORMALIZER, unit.number):
            normalizer = Normalizer(*self._stored(NORMALIZER, unit.number).T)
        else:
            held = decision["log_psi"]
            normalizer = Normalizer(np.array(held[:1]), np.array(held[1:]))
        density, error = density_with_error(family, *both, log_beta, normalizer)
        return Density(density, np.hypot(error, reference.error))

    def _ratio_error(self, densities: Mapping[int, Density]) -> float:
        """One plus the largest relative variance of a density that weights divide by.

        One over an unbiased estimate is too large by about this factor on average, and the noise
        itself does no harm: it is part of what is averaged over, like the action.
        """
        counts, served, reference = self.counts, self.served, self.known.reference
        if not any(each.error.any() for each in densities.values()):
            return 1.0
        log_mix = _mixture(densities, counts) + np.log(sum(counts.values()))
        variance = np.zeros(len(served))
        for number, count in counts.items():
            density = densities[number]
            own = (served == number) & self.by_who_acted
            share = np.exp(np.log(count) + density.log - log_mix)
            variance += np.where(own, 1.0, share**2) * density.error**2
        if set(counts) != {reference}:
            variance += densities[reference].error ** 2
        return 1.0 + float(variance.max())

    def _who_acted(
        self, densities: Mapping[int, Density], *, exact_limits: bool
    ) -> tuple[Floats, Floats]:
        """The densities of the policies that acted, each in its own rows, and their base limits."""
        logged, limit = np.full(densities[SAFE].log.shape, np.nan), np.zeros(len(self.served))
        for number in self.counts:
            own = self.served == number
            logged[own] = densities[number].log[own]
            limit[own] = _log_base_limit(self.known, number) if exact_limits else math.inf
        return logged, limit


def decide_beta(evidence: Evidence) -> tuple[dict[str, Any], Calibration]:
    """Find beta for a round: the header of its event, and the calibration."""
    return told(evidence, calibrate(evidence.log, evidence.proposals, **evidence.asked))


def told(evidence: Evidence, found: Calibration) -> tuple[dict[str, Any], Calibration]:
    """The header of the next round, with a note on what has to be known, and its calibration."""
    known, looks = evidence.known, evidence.looks
    notes = [_why_none(known.given)] if not found.exists else []
    if found.exists and not found.useful:
        notes.append(why_not_useful(found))
    if evidence.note:
        notes.append(evidence.note)
    if looks > 1:
        seen = f"calibration {looks} on the same rows: {CHOOSE_ON_TRAINING}"
        if found.confidence is not None:
            seen += f"; certified at {found.confidence:.6g} for it"
        notes.append(seen)
        found = replace(found, warnings=(*found.warnings, seen))
    decision = {
        **{"reason": "; ".join(notes), "rows": len(evidence.served), "looks": looks},
        **{"looked": evidence.subject, "given": evidence.given},
        **{name: getattr(found, name) for name in CALIBRATED},
        **{name: getattr(found.measured, name) for name in MEASURED},
        "promises": {name: each.promise for name, each in found.losses.items()},
        "risks": {name: each.risk for name, each in found.losses.items()},
        "warnings": list(found.warnings),
        "curve": _curve(found.binding),
    }
    header = {"level": found.log_beta, "reference": known.reference, "decision": decision}
    return header | {"calibration": encode(found)}, found


def by_safe(note: str) -> dict[str, Any]:
    """The header of a round for which there is nothing to calibrate."""
    return {"level": -math.inf, "reference": SAFE, "decision": {"reason": note, "rows": 0}}


def _curve(loss: LossResult) -> dict[str, Any]:
    """The risk along beta of the loss that limits it, where it changes; for histories."""
    steps = np.flatnonzero(np.abs(np.diff(loss.risks)) > 1e-3 * np.ptp(loss.risks))
    ends = (steps[0], steps[-1] + 2) if len(steps) else (0, len(loss.risks))
    shown = np.arange(*ends)[:: (ends[1] - ends[0]) // CURVE_POINTS + 1]
    shown = shown[np.isfinite(loss.log_betas[shown])]
    points = {"log_betas": loss.log_betas[shown].tolist(), "risks": loss.risks[shown].tolist()}
    return {"loss": loss.name, "alpha": loss.alpha, **points}


def _why_none(settings: Settings) -> str:
    if settings.confidence is not None:
        return "no beta is certified: the safe policy serves"
    if settings.rule == "promise":
        return "the recorded draw leaves the round to the safe policy"
    return "no beta passes: the safe policy serves"


def drawn_normalizer(found: Calibration, contents: Contents) -> Normalizer | None:
    """The normalizing constant that the draws of a round give; None where it has none."""
    drawn, family = contents.draws, find_family(found.family)
    if drawn is None or found.contextual or not needs_normalizer(family, found.log_beta):
        return None
    order = np.argsort(~drawn["from_safe"], kind="stable")
    log_safe, scores = drawn["log_safe"][order], drawn["log_optimized"][order]
    blended = blend_scores(scores, log_safe, found.blend)
    return clipped_normalizer(log_safe[None], blended[None], found.log_beta)


def needs_normalizer(family: Family, log_beta: float) -> bool:
    """Whether a policy has a normalizing constant that its beta does not give."""
    return not (family.normalized or np.isinf(log_beta))


def _mixture(densities: Mapping[int, Density], counts: Mapping[int, int]) -> Floats:
    terms = [np.log(count) + densities[number].log for number, count in counts.items()]
    return np.asarray(np.logaddexp.reduce(terms, axis=0) - np.log(sum(counts.values())))


def _log_base_limit(known: State, number: int) -> float:
    """How far the reference's density can exceed that of a round's policy, in logs."""
    if number == known.reference:
        return 0.0
    if number == SAFE:
        return math.inf
    unit = known.units[number - 1]
    family = find_family(unit.decision["family"])
    if family.single_draw and unit.reference == known.reference:
        share = family.optimized_share(unit.level) or 0.0
        if share < 1:
            return float(-np.log1p(-share))
    return math.inf


def check_support(log_safe: Floats, log_optimized: Floats, reference: int = SAFE) -> None:
    """Refuse an optimized policy that takes actions which the reference never takes."""
    outside = np.isneginf(log_safe) & (log_optimized > -np.inf)
    if outside.any():
        who = "safe policy" if reference == SAFE else f"policy of round {reference}"
        raise ValueError(
            f"the optimized policy takes actions that the {who} never takes ({outside.sum():,} of "
            f"{outside.size:,} draws or actions), whose losses are unknown: restrict it, or with "
            f"against='last' mix some of the safe policy into every policy (tether.Mixture.blend)"
        )
