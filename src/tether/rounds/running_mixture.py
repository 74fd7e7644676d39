"""Bringing the kept sums of past rounds up to the present rows and counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tether.rounds.calibration_rows import NORMALIZERS, CalibrationRows
from tether.rounds.mixture_sums import Counts, Density, MixtureSums, RowSums
from tether.rounds.policy_registry import SAFE

MAX_UNFOLDED = 32
"""How many of the last rounds stay out of the kept sums at most, because their counts change."""
SCORES_PER_CHUNK = 1 << 24
"""How many scores are in memory at once when sums are made anew."""


def advance(
    rows: CalibrationRows, kept: MixtureSums, counts: dict[int, int], reference: int, *, own: bool
) -> tuple[RowSums, MixtureSums]:
    """The sums over all policies that produced rows, and what to keep for the next round.

    `reference` is the round whose density must be among what is kept. With `own`, the density of
    the policy that took each action is kept too.
    """
    present: Counts = tuple(sorted((k, n) for k, n in counts.items() if k != SAFE))
    kept = kept.limited_to(rows.deployed.keys())
    length = max(0, len(present) - min(max(kept.changed(present), 1), MAX_UNFOLDED))
    continues = kept.continues(present, rows.shape, own=own)
    if continues:
        length = max(length, len(kept.folded))
    fold, wanted = present[:length], {reference, *dict(present[length:])} - {SAFE}
    if not (continues and _has_references(rows, kept, present, wanted)):
        kept = _begun(rows, fold, wanted, own=own)
    kept = _with_new_rows(rows, kept, own=own)
    sums, densities = kept.sums, dict(kept.densities)
    for number in sorted({*wanted, *dict(present[len(kept.folded) :])} - densities.keys()):
        [(_, densities[number])] = rows.densities([number], 0, len(rows), densities)
    assert sums is not None
    for number, count in present[len(kept.folded) : length]:
        sums = sums.with_policy(number, count, densities[number], rows.served)
    now_kept = MixtureSums(fold, present, sums, {number: densities[number] for number in wanted})
    for number, count in present[length:]:
        sums = sums.with_policy(number, count, densities[number], rows.served)
    sums = sums.with_policy(SAFE, counts.get(SAFE, 0), rows.safe_density, rows.served)
    return sums, now_kept


def _has_references(
    rows: CalibrationRows, kept: MixtureSums, present: Counts, wanted: set[int]
) -> bool:
    """Whether new policies can be added to the kept sums, one after the other, at all rows."""
    new = {*wanted, *dict(present[len(kept.folded) :])} - kept.densities.keys()
    measured_against = {rows.deployed[number].reference for number in new}
    return measured_against <= {SAFE, *kept.densities, *new}


def _begun(rows: CalibrationRows, fold: Counts, wanted: set[int], *, own: bool) -> MixtureSums:
    """Sums over no rows, that will be made anew for all of them.

    A policy without normalizers in the rows of earlier rounds comes later, at all rows at once.
    """
    new = {number for number in rows.deployed if _has_no_normalizers(rows, number)}
    first = next((k for k, (number, _) in enumerate(fold) if number in new), len(fold))
    later = {number for number, _ in fold[first:]}
    of_new = {rows.deployed[number].reference for number in new}
    nothing = RowSums.empty((0, *rows.shape[1:]), own=own)
    columns = ({*wanted, *later, *of_new} - new) - {SAFE}
    no_density = Density(nothing.log_sum)
    return MixtureSums(fold[:first], fold, nothing, dict.fromkeys(columns, no_density))


def _has_no_normalizers(rows: CalibrationRows, number: int) -> bool:
    stored = rows.scores.stored_rows(rows.name)
    return rows.estimates(number) and rows.scores.length(NORMALIZERS, number) < stored


def _with_new_rows(rows: CalibrationRows, kept: MixtureSums, *, own: bool) -> MixtureSums:
    """What is kept, at all rows."""
    folded, sums = dict(kept.folded), kept.sums
    assert sums is not None
    needed = _with_references(rows, {*folded, *kept.densities})
    columns = {number: [density] for number, density in kept.densities.items()}
    pieces = [sums]
    for start, stop in _chunks(rows, kept.rows, len(needed)):
        sums = RowSums.empty((stop - start, *rows.shape[1:]), own=own)
        served = rows.served[start:stop]
        for number, density in rows.densities(needed, start, stop, {}):
            if number in folded:
                sums = sums.with_policy(number, folded[number], density, served)
            if number in columns:
                columns[number].append(density)
        pieces.append(sums)
    densities = {number: Density.join(parts) for number, parts in columns.items()}
    return MixtureSums(kept.folded, kept.counts, RowSums.join(pieces), densities)


def _chunks(rows: CalibrationRows, start: int, policies: int) -> Iterator[tuple[int, int]]:
    """The rows from `start` on, in parts; new rows at once where normalizers are estimated."""
    values = max(1, policies) * (1 if len(rows.shape) == 1 else rows.shape[1])
    step = max(1, SCORES_PER_CHUNK // values)
    stored = min(rows.scores.stored_rows(rows.name), len(rows))
    estimates = any(rows.estimates(number) for number in rows.deployed)
    while start < len(rows):
        limit = stored if start < stored else len(rows)
        whole = estimates and start >= stored
        stop = limit if whole else min(limit, start + step)
        yield start, stop
        start = stop


def _with_references(rows: CalibrationRows, numbers: Iterable[int]) -> set[int]:
    """Rounds, with all those that their betas are measured against."""
    found: set[int] = set()
    for number in numbers:
        while number != SAFE and number not in found:
            found.add(number)
            number = rows.deployed[number].reference
    return found
