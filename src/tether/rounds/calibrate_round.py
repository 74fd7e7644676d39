"""The calibration that a round begins with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError

from tether._core.contexts import take
from tether._core.types import Booleans, Floats, Integers
from tether.control.blend import blend_scores
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.family import Family
from tether.control.log import Log
from tether.control.parts.in_parts import LogInParts, ProposalsInParts
from tether.control.proposals import Proposals
from tether.policies.normalizer import settled_normalizer
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered
from tether.rounds.calibration_rows import CalibrationRows
from tether.rounds.errors import LossesMissingError, RoundTakenError
from tether.rounds.kept import Kept
from tether.rounds.limits import listed_limits
from tether.rounds.path_pairs import PathOptimized
from tether.rounds.policy_registry import (
    MAX_PROBES,
    SAFE,
    DeployedPolicy,
    PolicyRegistry,
    check_scores,
    fingerprint,
)
from tether.rounds.round_log import RoundLog
from tether.rounds.round_proposals import draw_proposals
from tether.rounds.score_columns import DRAWS, ScoreColumns
from tether.rounds.settings import Settings
from tether.rounds.silence import end_silence
from tether.rounds.store import schema
from tether.rounds.store.checkpoints import make_checkpoints, write_checkpoints
from tether.rounds.store.database import PATIENCE_FOR_ROWS, Store
from tether.rounds.store.queries import (
    calibration_to_json,
    now,
    read_settings,
    storable_text,
    write_settings,
)
from tether.rounds.store.rows import Rows
from tether.rounds.store.score_pieces import piece_rows
from tether.rounds.store.writer import Writer
from tether.rounds.stored_policies import SavedPolicy

LARGEST_DENSITY_FACTOR = 1.25
"""A larger error of past policies' densities is refused."""
PROBES_PER_CALL = 4
"""Rows that the optimized policy scores again in every `act`, to show that it is unchanged."""
OBSERVED_SHARE_TOLERANCE = 1e-12
"""Relative rounding error allowed in `min_observed_share` times the number of rows."""


@dataclass(frozen=True)
class RoundStart:
    """What a round begins with; the safe policy serves alone where `deployed` is None.

    `all_actions` are the columns of the tables, where there are finitely many actions.
    """

    note: str = ""
    calibration: Calibration | None = None
    deployed: DeployedPolicy | None = None
    reference: int = SAFE
    proposals: Proposals | None = None
    all_actions: NDArray[Any] | None = None
    plain_log_beta: float | None = None

    def save(
        self,
        store: Store,
        number: int,
        name: str,
        optimized: Policy | None,
        rows: Rows,
        scores: ScoreColumns,
        saved: SavedPolicy,
        losses: Iterable[str],
        aim: tuple[str, SavedPolicy] | None = None,
    ) -> None:
        """Store the round, with the scores and draws from which it can be recomputed.

        Silence of the `losses` counts from now on. `aim` says how the policy was aimed.
        """
        deployed = self.deployed
        normalizer = None if deployed is None else deployed.normalizer
        row = {
            "number": number,
            "policy": None if optimized is None else name,
            "fingerprint": None if optimized is None else fingerprint(optimized),
            "policy_digest": saved.digest,
            "policy_problem": storable_text(saved.problem) or None,
            "reference": self.reference,
            "log_beta": -np.inf if deployed is None else deployed.policy.log_beta,
            "log_psi": None if normalizer is None else float(normalizer.log_psi[0]),
            "log_psi_error": None if normalizer is None else float(normalizer.standard_error[0]),
            "seen": rows.seen,
            "calibration": calibration_to_json(self.calibration),
            "note": self.note,
            "begun": now(),
            "aim": None if aim is None else aim[0],
        }
        listed = self.all_actions
        with store.reading(patience=PATIENCE_FOR_ROWS) as connection:
            checkpoints = make_checkpoints(connection, rows.checkpoints)
        rows.checkpoints = []
        try:
            with store.writing(exclusive=True, patience=PATIENCE_FOR_ROWS) as writer:
                saved.write(writer)
                if aim is not None:
                    aim[1].write(writer)
                scores.save(writer, number)
                self._save_proposals(writer, number)
                if listed is not None and "listed_actions" not in read_settings(writer.connection):
                    write_settings(writer, {"listed_actions": listed.tolist()})
                write_checkpoints(writer, checkpoints)
                writer.record(schema.rounds, row)  # last: its signature covers all of these
                kept = Kept(writer.connection)
                end_silence(kept, losses, writer.lanes)
                kept.save()
        except IntegrityError as error:
            raise RoundTakenError(
                f"round {number} was begun by another process while this one calibrated: use "
                f"`run.round`, or begin the next round"
            ) from error

    def _save_proposals(self, writer: Writer, number: int) -> None:
        proposals = self.proposals
        if proposals is None:
            return
        context = proposals.context
        columns = {
            "log_safe": proposals.log_safe,
            "log_optimized": proposals.log_optimized,
            "log_mix": proposals.log_mix,
            "from_safe": proposals.from_safe,
            "context": None if context is None else context.view(np.float64),
        }
        if (path := proposals.policy_path) is not None:
            columns |= {"log_path": path.log_density, "drawn_at": path.drawn_at}
            columns["log_beta"] = path.log_beta
        for name, values in columns.items():
            if values is not None:
                writer.score_pieces(piece_rows(number, DRAWS + name, 0, [number], values[None]))


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
    plain: Policy | None = None,
) -> RoundStart:
    """Score rows that have no scores yet, make the log, and find beta.

    Rows that were served by `retired` rounds are left out. What a `plain` policy would be allowed
    is computed as well, and decides nothing.
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
    confident = settings.confidence is not None
    round_log = RoundLog(calibration_rows, counts, reference, used, acting=confident)
    log_reference = calibration_rows.at_taken(round_log.log_reference)
    if reference != SAFE and np.isneginf(log_reference[used]).any():
        raise ValueError(
            f"against='last': the policy of round {reference} never takes some of the actions that "
            f"are in the log, so beta cannot be measured against it. Mix a small share of the safe "
            f"policy into optimized policies (tether.Mixture.blend), or use against='safe'"
        )
    log = round_log.make(losses)
    check_precision(log, number)
    contexts_used = take(contexts, np.flatnonzero(used))

    def draw_and_calibrate(candidate: Policy, log: Log) -> tuple[Proposals | None, Calibration]:
        proposals = draw_proposals(
            settings,
            registry,
            counts,
            reference,
            candidate,
            contexts_used,
            family,
            draws,
            number,
            mixed=log.log_mix is not None,
        )
        return proposals, find_beta(settings, family, log, proposals)

    proposals, calibration = draw_and_calibrate(optimized, log)
    all_actions = calibration_rows.all_actions
    allowed = None if plain is None else calibration.log_beta
    if plain is not None and plain is not optimized:
        from tether.rounds.aims.plain_allowance import plain_allowance

        place = (contexts_used, actions[used], all_actions)
        allowed = plain_allowance(plain, log, *place, draw_and_calibrate)
    begun = (reference, proposals, all_actions, allowed)
    if not calibration.exists:
        return RoundStart(_joined(_why_none(settings), note), calibration, None, *begun)
    if not calibration.useful:
        note = _joined("no useful promise: collect more rows, or ask for a larger one", note)
    if proposals is not None:
        check_support(proposals.log_safe, proposals.log_optimized)
    else:
        check_support(round_log.log_reference, calibration_rows.candidate_scores)
    without_log = Calibration.from_dict(calibration.to_dict())  # the run keeps every policy
    policy = registry.tethered(optimized, reference, without_log)
    normalizer = None
    if not calibration_rows.contextual:
        assert isinstance(policy, Tethered)
        at_rows = (log.log_safe, blend_scores(log.log_optimized, log.log_safe, policy.blend))
        normalizer = settled_normalizer(policy, 1, *at_rows)
        policy.remember(normalizer)
    probed = probed[:PROBES_PER_CALL]
    at_probed = calibration_rows.at_taken(calibration_rows.candidate_scores)[probed]
    probe = (take(contexts, probed), actions[probed], at_probed)
    deployed = DeployedPolicy(optimized, policy, reference, normalizer, probe)
    return RoundStart(note, without_log, deployed, *begun)


def find_beta(
    settings: Settings,
    family: Family,
    log: Log | LogInParts,
    proposals: Proposals | ProposalsInParts | None,
) -> Calibration:
    """Calibrate as the settings of a run say."""
    return calibrate(
        log,
        proposals,
        **{settings.target: {name: limit.alpha for name, limit in settings.limits.items()}},
        confidence=settings.confidence,
        bound={name: limit.bound for name, limit in settings.limits.items()},
        family=family,
        test_weight=settings.test_weight,
        ratio_error=log.ratio_error * settings.ratio_error,
        blend=settings.blend,
    )


def _why_none(settings: Settings) -> str:
    """Why the safe policy serves where there is no beta."""
    if settings.confidence is not None:
        return "no beta is certified: the safe policy serves"
    if settings.target == "promise":
        asked = listed_limits(settings.limits)
        return f"no beta has a promise of at most {asked}: the safe policy serves"
    return "no beta passes: the safe policy serves"


def _joined(reason: str, note: str) -> str:
    return f"{reason}; {note}" if note else reason


def check_precision(log: Log | LogInParts, number: int) -> None:
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
    if not pending.any():
        return losses, used, ""
    if settings.missing == "wait":
        expected = np.bincount(rows.round[where][used])
        arrived = np.bincount(rows.round[where][used & ~pending], minlength=len(expected))
        check_enough_observed(settings, expected, arrived)
    if settings.missing == "exclude":
        note = f"{pending.sum():,} of {used.sum():,} calibration rows without a loss are excluded"
        return losses, used & ~pending, note
    for name, limit in settings.limits.items():
        losses[name] = np.where(np.isnan(losses[name]) & pending, limit.bound, losses[name])
    note = (
        f"{pending.sum():,} of {used.sum():,} calibration rows without a loss count as the worst "
        f"loss"
    )
    return losses, used, note


def check_enough_observed(settings: Settings, expected: Integers, arrived: Integers) -> None:
    """Refuse to calibrate while too many losses are missing; the counts are by round."""
    needed = settings.min_observed_share * expected * (1 - OBSERVED_SHARE_TOLERANCE)
    if (arrived < needed).any():
        number = int(np.argmax(arrived < needed))
        raise LossesMissingError(
            f"round {number} has {arrived[number]:,} of {expected[number]:,} losses of its "
            f"calibration rows, but missing='wait' requires {settings.min_observed_share:.0%}: "
            f"observe them (`run.pending()` lists the missing ones), withdraw actions that were "
            f"never carried out, or serve the safe policy meanwhile with `run.begin()`"
        )
