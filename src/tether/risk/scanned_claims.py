"""Claims that are split over files or partitions and never in memory together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from tether._core.kernels import Parts, Several
from tether.risk.claim_contents import Contents, ReadContents
from tether.risk.claim_parts import ClaimColumns, ClaimKernel
from tether.risk.claim_sample import SampleClaims, SampledClaims
from tether.risk.claim_survey import ALL_ITEMS, Survey, SurveyResult
from tether.risk.item_names import (
    ItemNames,
    NameKernel,
    NamesOfHashes,
    ShareOfHashes,
    repeated_hashes,
)
from tether.risk.item_weights import ItemColumn
from tether.risk.scanned_copies import CountCopies, CountedCopies, copies_warning

Found = TypeVar("Found")


class ScannedClaims:
    """Claims in parts, made by `Claims.scan`: the methods take them in place of claims in memory.

    All claims of one item must be in one part. This is checked: at no cost where the parts are in
    the order of the items, and otherwise by hashes of all names, which may take further passes.

    Parameters
    ----------
    parts : Parts
        What applies a kernel to each part and merges the summaries.
    columns : ClaimColumns
        The names of the columns.
    """

    def __init__(self, parts: Parts, columns: ClaimColumns) -> None:
        self.parts, self.columns = parts, columns
        self._contents: Contents | None = None
        self._copies: CountedCopies
        self._sample: SampledClaims

    def __repr__(self) -> str:
        return f"ScannedClaims({self.parts!r})"

    @property
    def n_items(self) -> int:
        """The number of items; the first use reads the parts."""
        return sum(tally.n_items for tally in self.survey.tallies.values())

    @property
    def n_claims(self) -> int:
        """The number of claims; the first use reads the parts."""
        return sum(tally.n_claims for tally in self.survey.tallies.values())

    @property
    def groups(self) -> ItemColumn:
        """The column of groups, for `groups=claims.groups`."""
        return self._column("groups")

    @property
    def weights(self) -> ItemColumn:
        """The column of weights, for `weights=claims.weights`."""
        return self._column("weights")

    @property
    def log_weights(self) -> ItemColumn:
        """The column of logarithms of weights, for `log_weights=claims.log_weights`."""
        return self._column("log_weights")

    def group_sizes(self) -> dict[Any, int]:
        """The number of items of each group, in the order of their names."""
        tallies = self.survey.tallies
        if ALL_ITEMS in tallies:
            raise ValueError("these claims have no groups: pass a column to Claims.scan")
        return {name: tallies[name].n_items for name in sorted(tallies)}

    @cached_property
    def survey(self) -> SurveyResult:
        """What a first pass finds, with each item in one part only."""
        found: SurveyResult
        found, self._copies, self._sample = self._pass([Survey(), CountCopies(), SampleClaims()])
        if not found.names.apart():
            self._refuse_repeated(found.names)
        return replace(found, names=replace(found.names, hashes=None))

    @cached_property
    def copies_warning(self) -> str | None:
        """What is said of items that are copies; None if none are, or all may be by chance."""
        _ = self.survey
        return self.run_together([copies_warning(self._copies)])[0]

    @property
    def sample(self) -> SampledClaims:
        """Some of the items, with all of their claims."""
        _ = self.survey
        return self._sample

    def _refuse_repeated(self, names: ItemNames) -> None:
        """Compare the hashes of all names, in one or more passes over them where they are many."""
        shares = names.n_shares
        for share in range(shares):
            hashes = names.hashes or self._name_pass(ShareOfHashes(share, shares), names).hashes
            if not len(repeated := repeated_hashes(hashes)):
                continue
            found = self._name_pass(NamesOfHashes(repeated), names).in_several_parts()
            if found:
                least = "at least " if shares > 1 else ""
                more = f", and {least}{len(found) - 1} more items are" if len(found) > 1 else ""
                raise ValueError(
                    f"{self.columns.items} {found[0]!r} is in several parts{more}: all claims of "
                    "an item must be in one part (a file, or a partition of the engine); "
                    "repartition by item, or let an engine that sorts by item do it. If the parts "
                    "overlap, remove the copies"
                )

    def _name_pass(self, job: ShareOfHashes | NamesOfHashes, names: ItemNames) -> Any:
        found = self.parts.reduce(NameKernel(self.columns, job))
        n_items = 0 if found is None else found.n_items
        if n_items != names.n_items:
            raise ValueError(
                f"{self.parts!r} gave other rows in a second pass: {names.n_items:,} items, then "
                f"{n_items:,}; every pass must read the same rows"
            )
        return found

    def run_together(self, tasks: Sequence[Generator[Any, Any, Found]]) -> list[Found]:
        """Run generators that yield jobs and receive their summaries, in as few passes."""
        results: dict[int, Found] = {}
        waiting: dict[int, Any] = {}
        replies: dict[int, Any] = dict.fromkeys(range(len(tasks)))
        while True:
            for index, reply in replies.items():
                try:
                    waiting[index] = tasks[index].send(reply)
                except StopIteration as stop:
                    waiting.pop(index, None)
                    results[index] = stop.value
            if not waiting:
                return [results[index] for index in range(len(tasks))]
            replies = dict(zip(waiting, self._pass(list(waiting.values())), strict=True))

    def _pass(self, jobs: list[Any]) -> tuple[Any, ...]:
        kernel = ClaimKernel(self.columns, (ReadContents(), *jobs))
        merged: Several | None = self.parts.reduce(kernel)
        if merged is None:
            raise ValueError(f"{self.parts!r} has no rows; at least one claim is needed")
        self._check_contents(merged.each[0])
        return merged.each[1:]

    def _check_contents(self, contents: Contents) -> None:
        """Refuse columns of mixed kinds, and rows that are others than in an earlier pass."""
        if name := contents.mixed():
            raise TypeError(
                f"the column {getattr(self.columns, name)!r} holds numbers in one part and strings "
                "in another"
            )
        before = self._contents = self._contents or contents
        if contents != before:
            raise ValueError(
                f"{self.parts!r} gave other rows in a second pass: {before.n_claims:,} claims of "
                f"{before.n_items:,} items, then {contents.n_claims:,} of {contents.n_items:,}"
                f"{'' if before.n_claims != contents.n_claims else ' with other values'}; every "
                "pass must read the same rows"
            )

    def _column(self, role: str) -> ItemColumn:
        name = getattr(self.columns, role)
        if name is None:
            raise ValueError(f"these claims have no {role}: pass a column to Claims.scan")
        return ItemColumn(role, name)
