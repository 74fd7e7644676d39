"""What is the same for all blocks of a calibration: which rows are in use, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.policies.policy import Policy
from tether.rounds.calibrate_round import check_enough_observed, missing_note, with_references
from tether.rounds.calibration_blocks import Moment, read_blocks
from tether.rounds.policy_registry import SAFE, DeployedPolicy

if TYPE_CHECKING:
    from tether.rounds.controller import Controller


@dataclass(frozen=True)
class CalibrationPlan:
    """The rows of a moment, counted by the policies that produced those in use.

    `note` says how many have no loss, and `blocks` how many blocks of at most `rows_per_block`
    actions there are.
    """

    moment: Moment
    number: int
    optimized: Policy
    counts: dict[int, int]
    reference: int
    deployed: dict[int, DeployedPolicy]
    note: str
    rows_per_block: int
    blocks: int


def plan_calibration(
    run: Controller, optimized: Policy, moment: Moment, rows_per_block: int
) -> CalibrationPlan:
    """Count the rows in use; refuse what files cannot hold."""
    settings, retired = run.settings, list(moment.retired)
    served = expected = arrived = np.zeros(0, np.int64)
    blocks = 0
    for rows in read_blocks(run._store, moment, len(settings.limits), rows_per_block):
        where, blocks = np.flatnonzero(rows.calibration), blocks + 1
        in_use = ~rows.withdrawn[where] & ~np.isin(rows.served[where], retired)
        observed = in_use & ~rows.pending[where]
        used = observed if settings.missing == "exclude" else in_use
        served = _added(served, rows.served[where][used])
        expected = _added(expected, rows.round[where][in_use])
        arrived = _added(arrived, rows.round[where][observed])
    if settings.missing == "wait":
        check_enough_observed(settings, expected, _padded(arrived, len(expected)))
    counts = {int(number): int(served[number]) for number in np.flatnonzero(served)}
    if not counts:
        raise ValueError("there are no losses to calibrate on yet")
    reference = SAFE if settings.against == "safe" else run._registry.last()
    reference = SAFE if reference in moment.retired else reference
    if settings.confidence is not None and set(counts) != {reference}:
        raise ValueError(
            "confidence needs to know which policy took each action where several produced the "
            "rows, and files do not say it: begin the round in memory"
        )
    total = int(expected.sum())
    return CalibrationPlan(
        moment,
        1 + moment.serving.round,
        optimized,
        counts,
        reference,
        with_references(run._registry, {*counts, reference}),
        missing_note(settings, total - int(arrived.sum()), total),
        rows_per_block,
        blocks,
    )


def _added(counts: Any, numbers: Any) -> Any:
    """Counts by number, with some more."""
    more = np.bincount(numbers, minlength=len(counts))
    return _padded(counts, len(more)) + more


def _padded(counts: Any, length: int) -> Any:
    return np.pad(counts, (0, length - len(counts)))
