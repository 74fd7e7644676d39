"""The log of a calibration, block after block, as `begin` makes it of all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tether._core.contexts import take
from tether._core.types import Integers
from tether.control.families import BudgetedClip, Clip, Mix
from tether.control.family import Family
from tether.control.log import Log
from tether.control.parts.rows import LogPart
from tether.policies.policy import is_finite
from tether.rounds.calibrate_round import check_reference, check_support, losses_in_use
from tether.rounds.calibration_blocks import read_blocks
from tether.rounds.calibration_plan import CalibrationPlan
from tether.rounds.calibration_rows import CalibrationRows
from tether.rounds.policy_registry import MAX_PROBES, SAFE, check_scores
from tether.rounds.round_log import RoundLog
from tether.rounds.score_columns import BlockScores
from tether.rounds.store.rows import Rows

if TYPE_CHECKING:
    from tether.rounds.controller import Controller


class Block(NamedTuple):
    """Calibration rows that follow on one another, with their scores.

    `log` has those in use; it is None if there are none. `stored` are all rows of the block.
    """

    place: int
    stored: Rows
    rows: CalibrationRows
    scores: BlockScores
    log: Log | None


@dataclass
class LogFacts:
    """What is to be known of a log in blocks."""

    rows: int = 0
    ratio_error: float = 1.0
    safe_share: float | None = None
    approximate: str | None = None
    mixed: bool = False
    tables: bool = False

    def add(self, log: Log) -> None:
        """Take one more block into account."""
        self.rows, self.ratio_error = self.rows + len(log), max(self.ratio_error, log.ratio_error)
        self.mixed, self.tables = log.log_mix is not None, log.has_tables
        self.safe_share = log.safe_share if self.mixed else None
        self.approximate = log.approximate


def read_logs(
    run: Controller, plan: CalibrationPlan, scores: Callable[[int, int], BlockScores]
) -> Iterator[Block]:
    """The blocks that have calibration rows.

    `scores` gives those of a block, by its place and its first calibration row. Policies compute
    what it does not have.
    """
    settings, start = run.settings, 0
    if settings.missing == "wait":  # enough losses have arrived, and the others are the worst
        settings = replace(settings, missing="worst_case")
    blocks = read_blocks(run._store, plan.moment, len(settings.limits), plan.rows_per_block)
    for place, rows in enumerate(blocks):
        where = np.flatnonzero(rows.calibration)
        if not len(where):
            continue
        own = scores(place, start)
        calibration_rows = _scored(run, plan, rows, where, own)
        losses, used, _ = losses_in_use(settings, rows, where, plan.moment.retired)
        log = None
        if used.any():
            block = RoundLog(calibration_rows, plan.counts, plan.reference, used)
            check_reference(plan.reference, calibration_rows.at_taken(block.log_reference)[used])
            if calibration_rows.all_actions is not None:
                check_support(block.log_reference, calibration_rows.candidate_scores)
            log = block.make(losses, LogPart)
        yield Block(place, rows, calibration_rows, own, log)
        start += len(where)


def _scored(
    run: Controller, plan: CalibrationPlan, rows: Rows, where: Integers, scores: BlockScores
) -> CalibrationRows:
    contexts, actions = take(rows.contexts, where), rows.actions[where]
    if not isinstance(contexts, int) and not (is_finite(run.safe) and is_finite(plan.optimized)):
        raise ValueError(
            "the run has contexts, and actions that cannot be listed: every row would need draws "
            "in its context, which are not exported. Run on shortlists (tether.Shortlist), or "
            "begin the round in memory"
        )
    safe = run._registry.policy(SAFE)
    assert run._family is not None  # a ramp was refused
    _check_family(run._family, tables=not isinstance(contexts, int))
    if not scores.start:
        probed = np.arange(min(MAX_PROBES, len(where)))
        at_probed = (take(contexts, probed), actions[probed], rows.log_safe[where[probed]])
        check_scores(run.settings.safe, safe, *at_probed)
    return CalibrationRows(
        plan.number,
        safe,
        plan.optimized,
        contexts,
        actions,
        rows.log_safe[where],
        rows.served[where],
        rows.log_optimized[where],
        plan.deployed,
        scores,
    )


def _check_family(family: Family, *, tables: bool) -> None:
    """Refuse a family that has no solution in parts, before any policy scores a row."""
    known = isinstance(family, (Clip, Mix, BudgetedClip))
    if tables and (known or family.smoothness is not None):
        return
    if not tables and known and family.max_draws is None:
        return
    lacks = "a stated smoothness" if tables else "tables of all actions"
    raise ValueError(
        f"family {family.name!r} without {lacks} cannot be calibrated from files: begin the round "
        f"in memory"
    )
