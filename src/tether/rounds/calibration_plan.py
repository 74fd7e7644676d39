"""What is the same for all blocks of a calibration: which rows are in use, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.types import Integers
from tether.policies.policy import Policy
from tether.rounds.calibrate_round import check_enough_observed, missing_note, with_references
from tether.rounds.calibration_blocks import Moment, read_blocks
from tether.rounds.policy_registry import SAFE, DeployedPolicy
from tether.rounds.settings import Settings
from tether.rounds.store.rows import Rows

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


@dataclass
class RowTally:
    """Counts of the calibration rows of some blocks: by the policy that acted, and by round.

    `served` are those in use. Of those that should have a loss, `expected` are all and `arrived`
    those that have it.
    """

    settings: Settings
    retired: frozenset[int]
    served: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    expected: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    arrived: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, rows: Rows) -> None:
        """Count one more block."""
        where = np.flatnonzero(rows.calibration)
        in_use = ~rows.withdrawn[where] & ~np.isin(rows.served[where], list(self.retired))
        observed = in_use & ~rows.pending[where]
        used = observed if self.settings.missing == "exclude" else in_use
        self.served = _added(self.served, rows.served[where][used])
        self.expected = _added(self.expected, rows.round[where][in_use])
        self.arrived = _added(self.arrived, rows.round[where][observed])

    @property
    def counts(self) -> dict[int, int]:
        """How many of the rows in use each policy produced."""
        return {int(number): int(self.served[number]) for number in np.flatnonzero(self.served)}

    def note(self) -> str:
        """How many rows have no loss; an error if the run waits for more of them."""
        if self.settings.missing == "wait":
            arrived = _padded(self.arrived, len(self.expected))
            check_enough_observed(self.settings, self.expected, arrived)
        total = int(self.expected.sum())
        return missing_note(self.settings, total - int(self.arrived.sum()), total)


def plan_calibration(
    run: Controller, optimized: Policy, moment: Moment, rows_per_block: int
) -> CalibrationPlan:
    """Count the rows in use; refuse what files cannot hold."""
    tally = RowTally(run.settings, moment.retired)
    for rows in read_blocks(run._store, moment, len(run.settings.limits), rows_per_block):
        tally.add(rows)
    note, counts = tally.note(), tally.counts
    if not counts:
        raise ValueError("there are no losses to calibrate on yet")
    return plan_with_counts(run, optimized, moment, rows_per_block, counts, note)


def plan_with_counts(
    run: Controller,
    optimized: Policy,
    moment: Moment,
    rows_per_block: int,
    counts: Mapping[int, int],
    note: str,
) -> CalibrationPlan:
    """The plan for rows of which so many were produced by each policy."""
    settings = run.settings
    reference = SAFE if settings.against == "safe" else run._registry.last()
    reference = SAFE if reference in moment.retired else reference
    if settings.confidence is not None and set(counts) != {reference}:
        raise ValueError(
            "confidence needs to know which policy took each action where several produced the "
            "rows, and files do not say it: begin the round in memory"
        )
    return CalibrationPlan(
        moment,
        1 + moment.serving.round,
        optimized,
        dict(counts),
        reference,
        with_references(run._registry, {*counts, reference}),
        note,
        rows_per_block,
        sum(1 for _ in moment.blocks(rows_per_block)),
    )


def _added(counts: Any, numbers: Any) -> Any:
    """Counts by number, with some more."""
    more = np.bincount(numbers, minlength=len(counts))
    return _padded(counts, len(more)) + more


def _padded(counts: Any, length: int) -> Any:
    return np.pad(counts, (0, length - len(counts)))
