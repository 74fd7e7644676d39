"""The rows of a run by round, by the policy that answered, and by training or calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tether.rounds.releases.grouped_counts import GroupedCounts
from tether.rounds.store.rows import Rows


class RowGroup(NamedTuple):
    """Rows of a round that one policy answered.

    `served` is 0 for the safe policy and otherwise the number of the round whose policy it was: the
    same round, or that of the reference.
    """

    round: int
    served: int
    calibration: bool

    @property
    def is_own(self) -> bool:
        """Whether the policy of the round itself answered."""
        return self.served == self.round


PolicyRows = GroupedCounts[RowGroup]
"""The counts and the losses of each group; withdrawn rows are left out."""


def count_policy_rows(rows: Rows, names: Sequence[str]) -> PolicyRows:
    """Count rows, with their losses by name."""
    counts: PolicyRows = GroupedCounts(names)
    used = ~rows.withdrawn
    if not used.any():
        return counts
    columns = [rows.round[used], rows.served[used], rows.calibration[used]]
    found, place = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    place = place.reshape(-1)
    groups = [RowGroup(int(number), int(served), bool(own)) for number, served, own in found]
    losses = rows.losses[used]
    for k, group in enumerate(groups):
        mine = place == k
        counts.rows[group] = int(mine.sum())
        for column, name in zip(losses[mine].T, counts.names, strict=True):
            known = ~np.isnan(column)
            counts.known[group, name] = int(known.sum())
            counts.totals[group, name] = float(column[known].sum())
    return counts
