"""Beginning a round from a calibration job: it must be of this run, and its files are recomputed.

Only what policies computed when the job was exported is taken from its files: scores and draws.
Everything else follows from the store again, one block of rows at a time, and must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tether._core.contexts import take
from tether._core.types import Floats, Integers
from tether.control.blend import blend_scores
from tether.control.calibration import Calibration
from tether.control.proposals import Proposals
from tether.policies.normalizer import Normalizer, settled_marginal_normalizer
from tether.policies.policy import Policy
from tether.policies.tethered import Tethered
from tether.rounds.calibrate_round import check_precision, check_support
from tether.rounds.calibration_blocks import read_moment
from tether.rounds.calibration_export import check_exportable, describe_job
from tether.rounds.calibration_job import CalibrationJob
from tether.rounds.calibration_logs import Block, LogFacts, read_logs
from tether.rounds.calibration_plan import CalibrationPlan, RowTally, plan_with_counts
from tether.rounds.exported_scores import ExportedScores
from tether.rounds.job_checks import (
    check_block,
    check_draws,
    check_facts,
    check_identity,
    check_lanes,
    check_names,
    check_same,
    lane_differs,
)
from tether.rounds.job_files import BLOCK_LOG, PROPOSALS, read_table
from tether.rounds.round_start import PROBES_PER_CALL, RoundStart, alarm_note
from tether.rounds.score_columns import ScoreColumns
from tether.rounds.store.followed_lane import place_after
from tether.rounds.store.serving import Serving, read_retired
from tether.rounds.store.writer import Writer

if TYPE_CHECKING:
    from tether.rounds.controller import Controller


@dataclass(frozen=True)
class PreparedRound:
    """A round that only has to be stored: what it begins with, and what it adds to the store."""

    start: RoundStart
    scores: ExportedScores
    checkpoints: list[dict[str, Any]]
    job: CalibrationJob

    def check(self, writer: Writer) -> None:
        """Refuse a store in which the job's rows are not those that were checked."""
        check_same(self.job, "retired", tuple(sorted(read_retired(writer.connection))))
        for lane, (entry, head, *_) in self.job.lanes.items():
            found = place_after(writer.connection, lane, entry).head.hex()
            if found != head:
                raise lane_differs(self.job, lane)


def prepare_from_job(
    run: Controller, optimized: Policy, job: CalibrationJob, serving: Serving
) -> PreparedRound:
    """Check that a job is of the round that begins, and calibrate from its files."""
    if not isinstance(job, CalibrationJob):
        raise TypeError(f"job must be a CalibrationJob, got {job!r}")
    check_exportable(run)
    check_identity(run, optimized, job, serving)
    checkpoints: list[dict[str, Any]] = []
    to = {lane: each[0] for lane, each in job.lanes.items()}
    moment = read_moment(run._store, to, checkpoints)
    check_lanes(job, moment)
    check_same(job, "retired", tuple(sorted(moment.retired)))
    stored = ScoreColumns(run._store)
    stored.refresh()
    scores = ExportedScores(job, stored)
    if serving.alarm is not None:
        start = RoundStart(note=alarm_note(serving.alarm))
        return PreparedRound(start, scores, checkpoints, job)
    # Counts and note are those of the job, until the rows have been read and give the same ones.
    plan = plan_with_counts(run, optimized, moment, job.rows_per_block, job.counts, job.note)
    tally, facts, first, names = RowTally(run.settings, moment.retired), LogFacts(), None, set()
    for block in read_logs(run, plan, scores.block):
        first = first or _Probed.of(block)
        tally.add(block.stored)
        check_block(job, plan, block)
        if block.log is not None:
            facts.add(block.log)
            names.add(BLOCK_LOG.format(block.place))
    check_same(job, "counts", tally.counts)
    check_same(job, "note", tally.note())
    check_facts(job, describe_job(run, plan, facts, job.digests, job.folder))
    assert first is not None  # a job has rows, and they are those of the store
    check_names(job, {*names, *scores.files, *([] if facts.tables else [PROPOSALS])})
    return PreparedRound(_calibrated(run, plan, job, first), scores, checkpoints, job)


@dataclass(frozen=True)
class _Probed:
    """A few rows with the scores of the new policy, and the actions that are listed."""

    probe: tuple[Any, NDArray[Any], Floats]
    all_actions: NDArray[Any] | None
    contextual: bool

    @classmethod
    def of(cls, block: Block) -> _Probed:
        rows = block.rows
        where: Integers = np.arange(min(PROBES_PER_CALL, len(rows)))
        scores = rows.at_taken(rows.candidate_scores)[where]
        probe = (take(rows.contexts, where), rows.actions[where], scores)
        return cls(probe, rows.all_actions, rows.contextual)


def _calibrated(
    run: Controller, plan: CalibrationPlan, job: CalibrationJob, first: _Probed
) -> RoundStart:
    """What the round begins with."""
    check_precision(job.log(), plan.number)
    calibration = replace(job, family=run._family).calibrate()
    calibration = Calibration.from_dict(calibration.to_dict())  # the files need not stay
    proposals = None
    if PROPOSALS in job.digests:
        table = read_table(job.folder, PROPOSALS, job.digests[PROPOSALS])
        proposals = Proposals.from_frame(table, context=None)
        check_draws(job, proposals, run._draws)
        check_support(proposals.log_safe, proposals.log_optimized)

    def normalize(policy: Tethered) -> Normalizer | None:
        if first.contextual:
            return None
        return settled_marginal_normalizer(policy, lambda: _scores(job, policy.blend))

    begun = RoundStart(plan.note, calibration, None, plan.reference, proposals, first.all_actions)
    return begun.deploying(run.settings, run._registry, plan.optimized, normalize, first.probe)


def _scores(job: CalibrationJob, blend: float) -> Iterator[tuple[Floats, Floats]]:
    """The scores of the log under both policies, in parts."""
    for name in job.log_files:
        table = read_table(job.folder, name, job.digests[name])
        safe, optimized = (table[column].to_numpy() for column in ("log_safe", "log_optimized"))
        yield safe, blend_scores(optimized, safe, blend)
