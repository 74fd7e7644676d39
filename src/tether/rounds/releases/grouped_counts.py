"""Rows in groups: how many, and what their losses sum to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from tether.release.arm_counts import ArmCounts

Group = TypeVar("Group", bound=Hashable)


class GroupedCounts(Generic[Group]):
    """Counts and sums of losses, by group of rows; `known` and `totals` also by loss."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.rows: Counter[Group] = Counter()
        self.known: Counter[tuple[Group, str]] = Counter()
        self.totals: defaultdict[tuple[Group, str], float] = defaultdict(float)

    def counts(self, groups: Iterable[Group]) -> dict[str, ArmCounts]:
        """The rows of some groups together, by loss; unknown losses are pending."""
        groups = list(groups)
        rows = sum(self.rows[group] for group in groups)
        found = {}
        for name in self.names:
            known = sum(self.known[group, name] for group in groups)
            total = float(sum(self.totals.get((group, name), 0.0) for group in groups))
            found[name] = ArmCounts(rows, total, rows - known)
        return found
