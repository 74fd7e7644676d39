"""The log of a round's calibration as Parquet files, so that another job can calibrate from them.

`begin` holds all calibration rows in memory. The export holds one block of them: it computes what
`begin` would compute, row by row, and writes it down. `tether.Log.scan` reads the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tether._core import files
from tether.rounds import calibration_blocks
from tether.rounds.calibrate_round import check_precision, check_support
from tether.rounds.calibration_blocks import Moment, read_moment
from tether.rounds.calibration_job import CalibrationJob
from tether.rounds.calibration_logs import LogFacts, read_logs
from tether.rounds.calibration_plan import CalibrationPlan, plan_calibration
from tether.rounds.job_files import (
    BLOCK_LOG,
    BLOCK_SCORES,
    JOB,
    PROPOSALS,
    log_columns,
    proposal_columns,
    write_scores,
    write_table,
)
from tether.rounds.policy_registry import fingerprint
from tether.rounds.round_proposals import draw_proposals
from tether.rounds.score_columns import BlockScores, ScoreColumns
from tether.rounds.store.queries import RUN_SETTING, read_settings

if TYPE_CHECKING:
    from tether.rounds.action_space import OptimizedLike
    from tether.rounds.controller import Controller


def export_calibration(
    run: Controller, optimized: OptimizedLike, folder: str | Path
) -> CalibrationJob:
    """Write the log from which a round with this policy would be calibrated, in Parquet files.

    One block of rows is in memory at a time. The files hold, for every calibration row in use, its
    losses and its log-probabilities under both policies and under the mixture of all policies that
    produced the rows, with tables where actions are listed; and the scores that the store does not
    have yet. Nothing is stored in the run, and no round begins until `Controller.begin` is given
    the job. All rows are checked against the hash chain first. The run may go on meanwhile.

    Parameters
    ----------
    run : Controller
        The run.
    optimized : Policy, or what `Controller.begin` takes
        The policy that would be calibrated.
    folder : str or pathlib.Path
        A folder to write to, which must be empty or not exist yet. It is written completely or not
        at all.

    Returns
    -------
    CalibrationJob
        The files, and how to calibrate from them.

    Raises
    ------
    ValueError
        If the run is a ramp or aims, an alarm stands, there are no losses yet, contexts have
        actions that cannot be listed, or a confidence is asked for and several policies produced
        the rows; or a policy has changed.
    LossesMissingError
        If the run waits for losses.
    TamperedError
        If the store is not what was written to it.
    OSError
        If the folder is not empty, or cannot be written.
    """
    folder = files.as_path("folder", folder).absolute()
    with files.replacing_folder(folder) as temporary:
        with run._lock:
            check_exportable(run)
            policy = run._space.optimized("optimized", optimized)
        run._recorder.deliver()
        moment = read_moment(run._store)
        if moment.serving.alarm is not None:
            raise ValueError(f"alarm {moment.serving.alarm} stands: the safe policy serves")
        plan = plan_calibration(run, policy, moment, calibration_blocks.ROWS_PER_BLOCK)
        facts, digests = _write_blocks(run, plan, temporary)
        if not facts.tables:
            digests |= _write_proposals(run, plan, facts, temporary)
        job = describe_job(run, plan, facts, digests, str(temporary))
        check_precision(job.log(), plan.number)
        files.write_text(temporary / JOB, job.to_json())
    return describe_job(run, plan, facts, digests, str(folder))


def check_exportable(run: Controller) -> None:
    """Refuse runs whose rounds are not calibrated from a log."""
    if run.settings.is_ramp or run._aim is not None:
        raise ValueError("a ramp, or a run that aims, has no calibration that can be exported")


def describe_job(
    run: Controller,
    plan: CalibrationPlan,
    facts: LogFacts,
    digests: Mapping[str, str],
    folder: str,
) -> CalibrationJob:
    """The job that follows from the rows of a run."""
    return CalibrationJob(
        folder=folder,
        run=run_identity(run),
        number=plan.number,
        policy=fingerprint(plan.optimized),
        lanes=lanes_of(plan.moment),
        retired=tuple(sorted(plan.moment.retired)),
        counts=plan.counts,
        reference=plan.reference,
        rows=facts.rows,
        rows_per_block=plan.rows_per_block,
        safe_share=facts.safe_share,
        ratio_error=facts.ratio_error,
        approximate=facts.approximate,
        mixed=facts.mixed,
        tables=facts.tables,
        note=plan.note,
        digests=digests,
        settings=run.settings,
        family=run._family,
    )


def lanes_of(moment: Moment) -> dict[int, tuple[int, str, int, int]]:
    """How far each lane had come, as a job says it."""
    return {
        lane: (place.entry, place.head.hex(), place.action or 0, place.observation or 0)
        for lane, place in moment.places.items()
    }


def run_identity(run: Controller) -> str:
    """What tells a run from all others."""
    with run._store.reading() as connection:
        return str(read_settings(connection)[RUN_SETTING])


def _write_blocks(
    run: Controller, plan: CalibrationPlan, folder: Path
) -> tuple[LogFacts, dict[str, str]]:
    """Write the files of all blocks; what is to be known of the log, and their digests."""
    stored, facts, digests = ScoreColumns(run._store), LogFacts(), {}
    stored.refresh()
    for block in read_logs(run, plan, lambda _, start: BlockScores(stored, start)):
        name = BLOCK_SCORES.format(block.place)
        digests[name] = write_scores(folder / name, block.scores.new)
        if block.log is not None:
            name = BLOCK_LOG.format(block.place)
            digests[name] = write_table(folder / name, log_columns(block.log))
            facts.add(block.log)
    return facts, digests


def _write_proposals(
    run: Controller, plan: CalibrationPlan, facts: LogFacts, folder: Path
) -> dict[str, str]:
    """Draw proposals and write them, if the calibration needs any; their digest."""
    assert run._family is not None  # a ramp was refused
    proposals = draw_proposals(
        run.settings,
        run._registry,
        plan.counts,
        plan.reference,
        plan.optimized,
        facts.rows,
        run._family,
        run._draws,
        plan.number,
        mixed=facts.mixed,
    )
    if proposals is None:
        return {}
    check_support(proposals.log_safe, proposals.log_optimized)
    return {PROPOSALS: write_table(folder / PROPOSALS, proposal_columns(proposals))}
