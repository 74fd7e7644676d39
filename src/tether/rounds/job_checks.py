"""Whether a calibration job is of the round that begins, and follows from the rows of the store."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tether.control.log import Log
from tether.control.proposals import Proposals
from tether.policies.policy import Policy
from tether.rounds.calibration_blocks import Moment
from tether.rounds.calibration_export import lanes_of, run_identity
from tether.rounds.calibration_job import CalibrationJob
from tether.rounds.calibration_logs import Block
from tether.rounds.calibration_plan import CalibrationPlan
from tether.rounds.job_files import BLOCK_LOG, BLOCK_SCORES, LOSS, log_columns, read_table
from tether.rounds.policy_registry import MAX_PROBES, fingerprint
from tether.rounds.round_proposals import marginal_draws
from tether.rounds.settings import Settings
from tether.rounds.store.serving import Serving

if TYPE_CHECKING:
    from tether.rounds.controller import Controller

MACHINE_TOLERANCE = 1e-9
"""How far numbers may be from those of another machine, relative and absolute."""


def check_identity(
    run: Controller, optimized: Policy, job: CalibrationJob, serving: Serving
) -> None:
    """Refuse the job of another run, round or policy."""
    check_same(job, "run", run_identity(run))
    check_same(job, "number", 1 + serving.round)
    own = fingerprint(optimized)
    if own is not None and job.policy is not None:
        check_same(job, "policy", own)
    _check_settings(job, run.settings)


def _check_settings(job: CalibrationJob, own: Settings) -> None:
    for name, theirs, here in job.settings.differences(own, ()):
        raise _is_other(job, name, theirs, here)
    for name in ("seed", "created"):
        if getattr(job.settings, name) != getattr(own, name):
            raise _is_other(job, name, getattr(job.settings, name), getattr(own, name))


def check_same(job: CalibrationJob, name: str, own: Any) -> None:
    """Refuse a job of which something is not what it is in the run."""
    theirs = getattr(job, name)
    same = theirs == own
    if isinstance(own, float) and isinstance(theirs, float):
        same = bool(np.isclose(theirs, own, rtol=MACHINE_TOLERANCE, atol=MACHINE_TOLERANCE))
    if not same:
        raise _is_other(job, name, theirs, own)


def _is_other(job: CalibrationJob, name: str, theirs: Any, own: Any) -> ValueError:
    return ValueError(
        f"the job in {job.folder} is not of the round that begins: its {name} is {theirs!r}, but "
        f"here it is {own!r}"
    )


def check_lanes(job: CalibrationJob, moment: Moment) -> None:
    """Refuse a job of rows that the store does not have, or that end before those of a round."""
    own = lanes_of(moment)
    for lane in sorted({*job.lanes, *own}):
        if job.lanes.get(lane) != own.get(lane):
            raise lane_differs(job, lane)
    for lane, last in moment.earlier[-1].items() if moment.earlier else ():
        if lane not in job.lanes or job.lanes[lane][2] < last:
            raise ValueError(
                f"the job in {job.folder} has {job.lanes.get(lane, (0, 0, 0))[2]} actions of lane "
                f"{lane}, but the last round saw {last}"
            )


def check_facts(job: CalibrationJob, own: CalibrationJob) -> None:
    """Refuse a job that says anything else of its rows than the store does."""
    for field in fields(CalibrationJob):
        if field.name not in ("folder", "family", "policy", "lanes"):
            check_same(job, field.name, getattr(own, field.name))


def lane_differs(job: CalibrationJob, lane: int) -> ValueError:
    """What is said of a job whose rows of a lane are not those of the store."""
    entry = job.lanes.get(lane, (0,))[0]
    return ValueError(
        f"the job in {job.folder} is not of the rows of this store: lane {lane} has another hash "
        f"chain up to entry {entry} than when the job was exported"
    )


def check_block(job: CalibrationJob, plan: CalibrationPlan, block: Block) -> None:
    """Refuse a block whose log does not follow from the store, or scores that policies change."""
    size = max(1, MAX_PROBES // plan.blocks)
    seed = int(job.digests[BLOCK_SCORES.format(block.place)], 16)  # so that nobody chooses the rows
    length = len(block.rows)
    sample = np.random.default_rng(seed).choice(length, min(size, length), replace=False)
    for (name, number), scores in block.scores.new.items():
        what = f"the job in {job.folder} has scores {name!r} of round {number}"
        if (name, number) not in block.rows.columns:
            raise ValueError(f"{what}, which are not needed")
        if (found := block.scores.length(name, number)) != length:
            raise ValueError(
                f"{what} up to row {found} of a block, of which there should be {length}"
            )
        block.rows.check_given(number, scores, np.sort(sample))
    name = BLOCK_LOG.format(block.place)
    if (name in job.digests) != (block.log is not None):
        raise ValueError(f"the job in {job.folder} has other rows than the store: see {name}")
    if block.log is not None:
        _check_log(job, name, block.log)


def _check_log(job: CalibrationJob, name: str, log: Log) -> None:
    written = read_table(job.folder, name, job.digests[name])
    for column, values in log_columns(log).items():
        tolerance = 0.0 if column.startswith(LOSS.partition("{")[0]) else MACHINE_TOLERANCE
        if column not in written.column_names or not _agree(written[column], values, tolerance):
            raise ValueError(
                f"{column} in {name} of the job in {job.folder} is not what follows from the store"
            )


def check_names(job: CalibrationJob, expected: Collection[str]) -> None:
    """Refuse a job that names other files than its rows and draws make."""
    for name in sorted({*job.digests} ^ {*expected}):
        verb = "names" if name in job.digests else "does not name"
        raise ValueError(
            f"the job in {job.folder} is not of the rows of this store: it {verb} {name}"
        )


def check_draws(job: CalibrationJob, proposals: Proposals, draws: int | None) -> None:
    """Refuse fewer or more draws than the run makes."""
    own = marginal_draws(job.counts, job.rows, draws)
    found = int(proposals.from_safe.sum())
    if (found, len(proposals) - found) != (own, own):
        raise ValueError(
            f"the job in {job.folder} has {found:,} draws of the reference and "
            f"{len(proposals) - found:,} of the optimized policy, but here there would be {own:,} "
            f"of each: export and begin with the same draws= of the controller"
        )


def _agree(written: Any, values: Any, tolerance: float) -> bool:
    """Whether numbers, or lists of numbers, are the same up to rounding."""
    found, own = (pa.array(each) for each in (written.combine_chunks(), values))
    if found.type != own.type or len(found) != len(own) or found.null_count:
        return False
    if pa.types.is_list(own.type):
        found, own = found.flatten(), own.flatten()
    if found.null_count:
        return False
    return len(found) == len(own) and np.allclose(
        found.to_numpy(), own.to_numpy(), rtol=tolerance, atol=tolerance
    )
