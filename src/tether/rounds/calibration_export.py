"""The log of a round's calibration as Parquet files, so that another job can calibrate from them.

`begin` holds all calibration rows in memory. The export holds one block of them: it computes what
`begin` would compute, row by row, and writes it down. `tether.Log.scan` reads the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tether._core import files
from tether._core.contexts import take
from tether._core.types import Floats
from tether.control.log import Log
from tether.control.parts.rows import LogPart
from tether.control.proposals import SOURCES, Proposals
from tether.policies.policy import Policy, is_finite
from tether.rounds.calibrate_round import (
    check_enough_observed,
    check_precision,
    check_support,
    losses_in_use,
    with_references,
)
from tether.rounds.calibration_blocks import Moment, read_blocks, read_moment
from tether.rounds.calibration_job import FILE, JOB, LOSS, PROPOSALS, CalibrationJob, file_digest
from tether.rounds.calibration_rows import CalibrationRows
from tether.rounds.policy_registry import SAFE, DeployedPolicy, fingerprint
from tether.rounds.round_log import RoundLog
from tether.rounds.round_proposals import draw_proposals
from tether.rounds.score_columns import BlockScores
from tether.rounds.store.rows import Rows

if TYPE_CHECKING:
    from tether.rounds.action_space import OptimizedLike
    from tether.rounds.controller import Controller


@dataclass(frozen=True)
class _Plan:
    """What is the same for all blocks."""

    moment: Moment
    number: int
    optimized: Policy
    counts: dict[int, int]
    reference: int
    deployed: dict[int, DeployedPolicy]


def export_calibration(
    run: Controller, optimized: OptimizedLike, folder: str | Path
) -> CalibrationJob:
    """Write the log from which a round with this policy would be calibrated, in Parquet files.

    One block of rows is in memory at a time. The files hold, for every calibration row in use, its
    losses and its log-probabilities under both policies and under the mixture of all policies that
    produced the rows, with tables where actions are listed. Nothing is stored in the run, and no
    round begins: the calibration that follows from the files says what `begin` would find. All
    rows are checked against the hash chain first. The run may go on meanwhile.

    Parameters
    ----------
    run : Controller
        The run.
    optimized : Policy, or what `Controller.begin` takes
        The policy that would be calibrated.
    folder : str or pathlib.Path
        A folder to write to, which must be empty or not exist yet.

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
    target = files.as_path("folder", folder)
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"folder must be empty or new, got {str(target)!r} with files in it")
    with run._lock:
        policy = _checked_policy(run, optimized)
    plan = _plan(run, policy)
    target.mkdir(parents=True, exist_ok=True)
    digests: dict[str, str] = {}
    rows, ratio_error, log = 0, 1.0, None
    for log in _logs(run, plan):
        path = target / FILE.format(len(digests))
        digests[path.name] = _write(path, _columns(log))
        rows, ratio_error = rows + len(log), max(ratio_error, log.ratio_error)
    assert log is not None  # a plan has rows
    proposals = None
    if not log.has_tables:
        proposals = _proposals(run, plan, rows, mixed=log.log_mix is not None)
    if proposals is not None:
        check_support(proposals.log_safe, proposals.log_optimized)
        digests[PROPOSALS] = _write(target / PROPOSALS, _proposal_columns(proposals))
    job = CalibrationJob(
        folder=str(target),
        number=plan.number,
        policy=fingerprint(policy),
        seen=plan.moment.seen,
        heads=plan.moment.heads,
        retired=tuple(sorted(plan.moment.retired)),
        counts=plan.counts,
        reference=plan.reference,
        rows=rows,
        safe_share=log.safe_share if log.log_mix is not None else None,
        ratio_error=ratio_error,
        approximate=log.approximate,
        mixed=log.log_mix is not None,
        tables=log.has_tables,
        digests=digests,
        settings=run.settings,
        family=run._family,
    )
    check_precision(job.log(), plan.number)
    files.write_text(target / JOB, job.to_json())
    return job


def _checked_policy(run: Controller, optimized: Any) -> Policy:
    if run.settings.is_ramp or run._aim is not None:
        raise ValueError("a ramp, or a run that aims, has no calibration that can be exported")
    return run._space.optimized("optimized", optimized)


def _plan(run: Controller, optimized: Policy) -> _Plan:
    """Read how far the run has come, and count the rows in use by the policies that served."""
    moment = read_moment(run._store)
    if moment.serving.alarm is not None:
        raise ValueError(f"alarm {moment.serving.alarm} stands: the safe policy serves")
    served = expected = arrived = np.zeros(0, np.int64)
    for rows in read_blocks(run._store, moment, len(run.settings.limits)):
        where = np.flatnonzero(rows.calibration)
        in_use = ~rows.withdrawn[where] & ~np.isin(rows.served[where], list(moment.retired))
        observed = in_use & ~rows.pending[where]
        used = observed if run.settings.missing == "exclude" else in_use
        served = _added(served, rows.served[where][used])
        expected = _added(expected, rows.round[where][in_use])
        arrived = _added(arrived, rows.round[where][observed])
    if run.settings.missing == "wait":
        arrived = np.pad(arrived, (0, len(expected) - len(arrived)))
        check_enough_observed(run.settings, expected, arrived)
    counts = {int(number): int(served[number]) for number in np.flatnonzero(served)}
    if not counts:
        raise ValueError("there are no losses to calibrate on yet")
    reference = SAFE if run.settings.against == "safe" else run._registry.last()
    reference = SAFE if reference in moment.retired else reference
    if run.settings.confidence is not None and set(counts) != {reference}:
        raise ValueError(
            "confidence needs to know which policy took each action where several produced the "
            "rows, and files do not say it: begin the round in memory"
        )
    deployed = with_references(run._registry, {*counts, reference})
    return _Plan(moment, 1 + moment.serving.round, optimized, counts, reference, deployed)


def _added(counts: Any, numbers: Any) -> Any:
    """Counts by number, with some more."""
    more = np.bincount(numbers, minlength=len(counts))
    return np.pad(counts, (0, len(more) - len(counts))) + more


def _logs(run: Controller, plan: _Plan) -> Iterator[Log]:
    """The log of each block that has rows in use."""
    settings = run.settings
    if settings.missing == "wait":  # enough losses have arrived, and the others are the worst
        settings = replace(settings, missing="worst_case")
    for rows in read_blocks(run._store, plan.moment, len(settings.limits)):
        where = np.flatnonzero(rows.calibration)
        losses, used, _ = losses_in_use(settings, rows, where, plan.moment.retired)
        if used.any():
            yield _log_of_block(run, plan, rows, where[used], _used(losses, used))


def _used(losses: dict[str, Floats], used: Any) -> dict[str, Floats]:
    return {name: loss[used] for name, loss in losses.items()}


def _log_of_block(
    run: Controller, plan: _Plan, rows: Rows, where: Any, losses: dict[str, Floats]
) -> Log:
    contexts = take(rows.contexts, where)
    if not isinstance(contexts, int) and not (is_finite(run.safe) and is_finite(plan.optimized)):
        raise ValueError(
            "the run has contexts, and actions that cannot be listed: every row would need draws "
            "in its context, which are not exported. Run on shortlists (tether.Shortlist), or "
            "begin the round in memory"
        )
    calibration_rows = CalibrationRows(
        plan.number,
        run._registry.policy(SAFE),
        plan.optimized,
        contexts,
        rows.actions[where],
        rows.log_safe[where],
        rows.served[where],
        rows.log_optimized[where],
        plan.deployed,
        BlockScores(),
    )
    used = np.ones(len(where), np.bool_)
    block = RoundLog(calibration_rows, plan.counts, plan.reference, used)
    if np.isneginf(calibration_rows.at_taken(block.log_reference)).any():
        raise ValueError(
            f"the policy of round {plan.reference}, which beta is measured against, never takes "
            f"some of the actions that are in the log"
        )
    log = block.make(losses, LogPart)
    if log.has_tables:
        check_support(block.log_reference, calibration_rows.candidate_scores)
    return log


def _proposals(run: Controller, plan: _Plan, rows: int, *, mixed: bool) -> Proposals | None:
    assert run._family is not None  # a ramp was refused
    return draw_proposals(
        run.settings,
        run._registry,
        plan.counts,
        plan.reference,
        plan.optimized,
        rows,
        run._family,
        run._draws,
        plan.number,
        mixed=mixed,
    )


def _columns(log: Log) -> dict[str, Any]:
    """The columns of a log; a table is one column of lists."""
    columns: dict[str, Any] = {LOSS.format(k): loss for k, loss in enumerate(log.loss.values())}
    for name in ("log_safe", "log_optimized", "log_mix"):
        if getattr(log, name) is not None:
            columns[name] = getattr(log, name)
        table = getattr(log, f"{name}_all")
        if table is not None:
            flat = pa.array(np.ascontiguousarray(table).ravel())
            offsets = np.arange(len(table) + 1, dtype=np.int32) * table.shape[1]
            columns[f"{name}_all"] = pa.ListArray.from_arrays(pa.array(offsets), flat)
    return columns


def _proposal_columns(proposals: Proposals) -> dict[str, Any]:
    safe, optimized = SOURCES
    columns = {
        "log_safe": proposals.log_safe,
        "log_optimized": proposals.log_optimized,
        "source": np.where(proposals.from_safe, safe, optimized),
    }
    if proposals.log_mix is not None:
        columns["log_mix"] = proposals.log_mix
    return columns


def _write(path: Path, columns: dict[str, Any]) -> str:
    """Write one file; its digest."""
    with files.replacing(path) as temporary:
        parquet.write_table(pa.table(columns), temporary)
        return file_digest(temporary)
