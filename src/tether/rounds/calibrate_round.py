"""The calibration that a round begins with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls
from tether._core.arrays import Booleans, Floats, Integers
from tether._core.contexts import take
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.families import Family, blend_scores
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.policies.normalizer import Normalizer, settled_normalizer
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered
from tether.rounds.calibration_rows import CalibrationRows
from tether.rounds.errors import LossesMissingError
from tether.rounds.path_pairs import PathOptimized
from tether.rounds.policy_registry import (
    MAX_PROBES,
    SAFE,
    DeployedPolicy,
    PolicyRegistry,
    check_scores,
)
from tether.rounds.round_log import RoundLog
from tether.rounds.round_proposals import draw_proposals
from tether.rounds.round_start import PROBES_PER_CALL, RoundStart
from tether.rounds.score_columns import ScoreColumns
from tether.rounds.settings import Settings
from tether.rounds.store.rows import Rows

CHAIN_STREAM = 104729
"""Part of the seed of the draw of a promise."""
LARGEST_DENSITY_FACTOR = 1.25
"""A larger error of past policies' densities is refused."""
OBSERVED_SHARE_TOLERANCE = 1e-12
"""Relative rounding error allowed in `min_observed_share` times the number of rows."""


def calibrate_round(
    settings: Settings,
    family: Family,
    rows: Rows,
    scores: ScoreColumns,
    registry: PolicyRegistry,
    optimized: Policy,
    number: int,
    draws: int | None,
    retired: frozenset[int] = frozenset(),
) -> RoundStart:
    """Score rows that have no scores yet, make the log, and find beta.

    Rows that were served by `retired` rounds are left out.
    """
    where = np.flatnonzero(rows.calibration)
    losses, used, note = losses_in_use(settings, rows, where, retired)
    if not used.any():
        return RoundStart(note="no losses to calibrate on yet: the safe policy serves")
    reference = SAFE if settings.against == "safe" else registry.last()
    reference = SAFE if reference in retired else reference
    contexts, actions = take(rows.contexts, where), rows.actions[where]
    along_path = isinstance(optimized, PathOptimized)
    if along_path and isinstance(contexts, int):
        raise ValueError(
            f"family {family.name!r} needs contexts, the prompts that are answered: this run has "
            f"none"
        )
    served = rows.served[where]
    counts = count_served(served[used])
    past_policies = with_references(registry, {*counts, reference})
    probed = np.arange(min(MAX_PROBES, len(where)))
    check_scores(
        settings.safe,
        registry.policy(SAFE),
        take(contexts, probed),
        actions[probed],
        rows.log_safe[where[probed]],
    )
    scores.refresh()
    calibration_rows = CalibrationRows(
        number,
        registry.policy(SAFE),
        optimized,
        contexts,
        actions,
        rows.log_safe[where],
        served,
        rows.log_prob[where] if along_path else rows.log_optimized[where],
        past_policies,
        scores,
    )
    round_log = RoundLog(calibration_rows, counts, reference, used, acting=settings.by_who_acted)
    log_reference = calibration_rows.at_taken(round_log.log_reference)
    check_reference(reference, log_reference[used])
    log = round_log.make(losses)
    check_precision(log, number)
    proposals = draw_proposals(
        settings,
        registry,
        counts,
        reference,
        optimized,
        take(contexts, np.flatnonzero(used)),
        family,
        draws,
        number,
        mixed=log.log_mix is not None,
    )
    if proposals is not None:
        check_support(proposals.log_safe, proposals.log_optimized)
    else:
        check_support(round_log.log_reference, calibration_rows.candidate_scores)
    calibration = find_beta(settings, family, log, proposals, number)
    all_actions = calibration_rows.all_actions

    def normalize(policy: Tethered) -> Normalizer | None:
        if calibration_rows.contextual:
            return None
        blended = blend_scores(log.log_optimized, log.log_safe, policy.blend)
        return settled_normalizer(policy, 1, log.log_safe, blended)

    probed = probed[:PROBES_PER_CALL]
    probe_rows = take(contexts, probed), actions[probed]
    if along_path:  # the end of a path may be a blend, and what is probed is the model itself
        at_probed = policy_calls.score("optimized", optimized, *probe_rows)
    else:
        at_probed = calibration_rows.at_taken(calibration_rows.candidate_scores)[probed]
    probe = (*probe_rows, at_probed)
    begun = RoundStart(note, calibration, None, reference, proposals, all_actions)
    return begun.deploying(settings, registry, optimized, normalize, probe)


def find_beta(
    settings: Settings, family: Family, log: Log, proposals: Proposals | None, number: int
) -> Calibration:
    """Calibrate as the settings of a run say; a promise has one draw, recorded with the result."""
    asked = {name: limit.alpha for name, limit in settings.limits.items()}
    draw = np.random.default_rng([settings.seed, number, CHAIN_STREAM])
    return calibrate(
        log,
        proposals,
        alpha=asked if settings.target == "alpha" else None,
        promise=asked if settings.target == "promise" else None,
        seed=int(draw.integers(2**63)),
        confidence=settings.confidence,
        bound={name: limit.bound for name, limit in settings.limits.items()},
        family=family,
        test_weight=settings.test_weight,
        ratio_error=log.ratio_error * settings.ratio_error,
        blend=settings.blend,
    )


def check_precision(log: Log, number: int) -> None:
    """Refuse densities of past policies that are too uncertain to divide by."""
    if log.approximate is None and not log.ratio_error <= LARGEST_DENSITY_FACTOR:
        raise ValueError(
            f"the densities of past policies in the log of round {number} are estimates, and some "
            f"may be wrong by a factor of {log.ratio_error:.3g}, more than "
            f"{LARGEST_DENSITY_FACTOR:g}: pass a larger normalizer_draws, or run on shortlists "
            f"(tether.Shortlist), whose past policies are exact"
        )


def with_references(registry: PolicyRegistry, numbers: set[int]) -> dict[int, DeployedPolicy]:
    """What the rounds deployed, with the rounds that their betas are measured against."""
    deployed: dict[int, DeployedPolicy] = {}
    for number in sorted(numbers):
        while number != SAFE and number not in deployed:
            deployed[number] = registry.deployed(number)
            number = deployed[number].reference  # a reference has its own reference
    return deployed


def check_reference(reference: int, log_reference: Floats) -> None:
    """Refuse a past policy as the reference if it never takes some of the actions in the log."""
    if reference != SAFE and np.isneginf(log_reference).any():
        raise ValueError(
            f"against='last': the policy of round {reference} never takes some of the actions that "
            f"are in the log, so beta cannot be measured against it. Mix a small share of the safe "
            f"policy into optimized policies (tether.Mixture.blend), or use against='safe'"
        )


def check_support(log_safe: Floats, log_optimized: Floats) -> None:
    """Refuse an optimized policy that takes actions which the safe policy never takes."""
    outside = np.isneginf(log_safe) & (log_optimized > -np.inf)
    if outside.any():
        raise ValueError(
            f"the optimized policy takes actions that the safe policy never takes "
            f"({int(outside.sum()):,} of {outside.size:,} draws or actions): their losses are "
            f"unknown. Restrict the optimized policy to actions that the safe one can take"
        )


def count_served(served: NDArray[Any]) -> dict[int, int]:
    """How many rows each policy produced, by round number; 0 is the safe policy."""
    counts = np.bincount(served)
    return {int(number): int(counts[number]) for number in np.flatnonzero(counts)}


def losses_in_use(
    settings: Settings, rows: Rows, where: Integers, retired: frozenset[int] = frozenset()
) -> tuple[dict[str, Floats], Booleans, str]:
    """Losses of calibration rows, which of these are used, and a note on those without a loss."""
    losses = dict(zip(settings.limits, rows.losses[where].T, strict=True))
    used = ~rows.withdrawn[where] & ~np.isin(rows.served[where], list(retired))
    pending = rows.pending[where] & used
    note = missing_note(settings, int(pending.sum()), int(used.sum()))
    if not note:
        return losses, used, note
    if settings.missing == "wait":
        expected = np.bincount(rows.round[where][used])
        arrived = np.bincount(rows.round[where][used & ~pending], minlength=len(expected))
        check_enough_observed(settings, expected, arrived)
    if settings.missing == "exclude":
        return losses, used & ~pending, note
    for name, limit in settings.limits.items():
        losses[name] = np.where(np.isnan(losses[name]) & pending, limit.bound, losses[name])
    return losses, used, note


def missing_note(settings: Settings, pending: int, used: int) -> str:
    """What is said of a round of which so many rows have no loss yet."""
    if not pending:
        return ""
    how = "are excluded" if settings.missing == "exclude" else "count as the worst loss"
    return f"{pending:,} of {used:,} calibration rows without a loss {how}"


def check_enough_observed(settings: Settings, expected: Integers, arrived: Integers) -> None:
    """Refuse to calibrate while too many losses are missing; the counts are by round."""
    needed = settings.min_observed_share * expected * (1 - OBSERVED_SHARE_TOLERANCE)
    if (arrived < needed).any():
        number = int(np.argmax(arrived < needed))
        counted = (
            f"round {number} has {arrived[number]:,} of {expected[number]:,} losses of its "
            f"calibration rows, but missing='wait' requires {settings.min_observed_share:.0%}"
        )
        advice = (
            "observe them (`run.pending()` lists the missing ones), withdraw actions that were "
            "never carried out, or serve the safe policy meanwhile with `run.begin()`"
        )
        raise LossesMissingError(f"{counted}: {advice}", counted)
