"""The calibration with which a round begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sql
from numpy.typing import NDArray

from tether._core.contexts import labels, take
from tether._core.types import Floats
from tether.control.calibrate import calibrate
from tether.control.calibration import Calibration
from tether.control.family import Family
from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.policies.log_from_policies import make_proposals
from tether.policies.mixture import Mixture
from tether.rounds.errors import LossesMissingError
from tether.rounds.fingerprint import PROBES, check_scores
from tether.rounds.policy_registry import Registry
from tether.rounds.round_log import SAFE, Deployed, Evidence, count_served
from tether.rounds.score_columns import Scores
from tether.rounds.settings import Terms
from tether.rounds.store.rows import Rows
from tether.rounds.store.store import write_column

FEWEST, MOST, IN_CONTEXT = 1_000, 100_000, 16
"""Draws of each policy for a calibration: as many as rows, within limits; or in each context."""
FEW = 4
"""Rows that the optimized policy scores again at every action, to show that it is the same."""
APART = 7919
"""Part of the seed of these draws, so that no stream the user holds is the same."""


@dataclass(frozen=True)
class Beginning:
    """What a round begins with; nothing but the safe policy where `deployed` is None."""

    note: str = ""
    calibration: Calibration | None = None
    deployed: Deployed | None = None
    reference: int = SAFE
    proposals: Proposals | None = None
    listed: NDArray[Any] | None = None
    """Every action, in the order of the columns of tables, where they are finitely many."""

    def save_proposals(self, connection: sql.Connection, number: int) -> None:
        """Keep the draws beside the scores: what was calibrated can then be computed again."""
        drawn = self.proposals
        if drawn is None:
            return
        columns = {
            "draws_log_safe": drawn.log_safe,
            "draws_log_optimized": drawn.log_optimized,
            "draws_log_mix": drawn.log_mix,
            "draws_from_safe": drawn.from_safe,
            "draws_context": None if drawn.context is None else drawn.context.view(np.float64),
        }
        for name, values in columns.items():
            if values is not None:
                write_column(connection, number, name, 0, values)


def calibrate_round(
    terms: Terms,
    family: Family,
    rows: Rows,
    scores: Scores,
    registry: Registry,
    optimized: Any,
    number: int,
    draws: int | None,
) -> Beginning:
    """Score what must be scored, put the log together, and find beta."""
    where = np.flatnonzero(rows.calibration)
    loss, used, note = losses_in_use(terms, rows, where)
    if not used.any():
        return Beginning(note="no losses to calibrate on yet: the safe policy serves")
    reference = SAFE if terms.against == "safe" else registry.last()
    contexts, actions = take(rows.contexts, where), rows.actions[where]
    served = rows.served[where]
    counts = count_served(served[used])
    needed = {*counts, reference} - {SAFE}
    deployed = {}
    while needed:  # a reference has its own reference
        each = min(needed)
        deployed[each] = registry.deployed(each)
        needed = (needed | {deployed[each].reference}) - {SAFE, *deployed}
    few = np.arange(min(PROBES, len(where)))
    check_scores(
        terms.safe,
        registry.policy(SAFE),
        take(contexts, few),
        actions[few],
        rows.log_safe[where[few]],
    )
    evidence = Evidence(
        registry.policy(SAFE),
        contexts,
        actions,
        rows.log_safe[where],
        served,
        rows.log_optimized[where],
        deployed,
        scores,
        optimized,
    )
    if reference != SAFE and np.isneginf(evidence.taken(reference)[used]).any():
        raise ValueError(
            f"against='last': what round {reference} deployed never takes some of the actions that "
            f"are in the log, and beta cannot be measured against it. Give optimized policies a "
            f"little of all that the safe one does (tether.Mixture.blend), or use against='safe'"
        )
    log = evidence.log(number, reference, loss, used)
    proposals = _proposals(
        registry,
        counts,
        reference,
        optimized,
        take(contexts, np.flatnonzero(used)),
        log,
        draws,
        np.random.default_rng([terms.seed, number, APART]),
    )
    found = calibrate(
        log,
        proposals,
        alpha=terms.alpha,
        bound=terms.bound,
        family=family,
        test_weight=terms.test_weight,
    )
    if not found.exists:
        said = "no beta passes: the safe policy serves"
        note = f"{said}; {note}" if note else said
        return Beginning(note, found, None, reference, proposals, evidence.finite)
    _within_reach(evidence, proposals, reference, number)
    policy = registry.tethered(optimized, reference, found)
    log_psi = None
    if not evidence.contextual:
        log_psi = float(policy.normalizer(1).log_psi[0])
    few = few[:FEW]
    probe = (take(contexts, few), actions[few], evidence.taken_by_candidate(number)[few])
    deployed_now = Deployed(optimized, policy, reference, log_psi, probe)
    return Beginning(note, found, deployed_now, reference, proposals, evidence.finite)


def _within_reach(
    evidence: Evidence, proposals: Proposals | None, reference: int, number: int
) -> None:
    """Refuse an optimized policy that does what was never done, before it does it."""
    if proposals is not None:
        log_safe, log_optimized = proposals.log_safe, proposals.log_optimized
    else:
        log_safe = evidence.density(reference)
        log_optimized = evidence.optimized(number, evidence.candidate)
    outside = np.isneginf(log_safe) & (log_optimized > -np.inf)
    if outside.any():
        raise ValueError(
            f"the optimized policy does what the safe policy never does ({int(outside.sum()):,} of "
            f"{outside.size:,} draws or actions): no log says what that costs. Keep the optimized "
            f"policy to what the safe one can do"
        )


def losses_in_use(
    terms: Terms, rows: Rows, where: NDArray[Any]
) -> tuple[Floats, NDArray[np.bool_], str]:
    """Losses of calibration rows, which of these rows count, and a word on those without one."""
    loss, pending = rows.loss[where].copy(), rows.pending[where]
    used = ~rows.withdrawn[where]
    if not pending.any():
        return loss, used, ""
    if terms.missing == "wait":
        _wait(terms, rows.round[where], pending, used)
    if terms.missing == "exclude":
        note = f"{pending.sum():,} of {used.sum():,} calibration rows without a loss are left out"
        return loss, used & ~pending, note
    loss[pending] = terms.bound
    note = f"{pending.sum():,} of {used.sum():,} calibration rows without a loss count as the worst"
    return loss, used, note


def _wait(
    terms: Terms, rounds: NDArray[Any], pending: NDArray[np.bool_], used: NDArray[np.bool_]
) -> None:
    for number in np.unique(rounds).tolist():
        there = (rounds == number) & used
        arrived, expected = int((there & ~pending).sum()), int(there.sum())
        if arrived < terms.enough * expected * (1 - 1e-12):
            raise LossesMissingError(
                f"round {number} has {arrived:,} of {expected:,} losses of its calibration rows, "
                f"and missing='wait' asks for {terms.enough:.0%}: report them (`run.pending()` "
                f"lists what is awaited), withdraw what was never done, or serve the safe policy "
                f"meanwhile with `run.begin()`"
            )


def _proposals(
    registry: Registry,
    counts: dict[int, int],
    reference: int,
    optimized: Any,
    contexts: Any,
    log: Log,
    draws: int | None,
    rng: np.random.Generator,
) -> Proposals | None:
    logged_by = None
    if log.log_mix is not None:
        policies = [registry.policy(each) for each in counts]
        logged_by = Mixture(policies, list(counts.values()))
    if isinstance(contexts, int):
        asked, each = 1, draws or int(np.clip(len(log), FEWEST, MOST))
    else:
        _, first = np.unique(labels(contexts), return_index=True)  # equal contexts share draws
        asked, each = take(contexts, np.sort(first)), draws or IN_CONTEXT
    return make_proposals(
        registry.policy(reference), optimized, asked, each, rng, logged_by=logged_by
    )
