"""From claims in parts to a sweep: one candidate per bin, and every score where it matters.

Bins are refined until those in which a method could stop hold so few claims that all their scores
are collected. The sweep then has every candidate that matters, with its exact sum, and the last of
each other bin. For gCRC the losses of items near the limit are collected as well, so that the
stability of the threshold is measured as in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether._core.safe_excess import SafeMean, mean_from_moments
from tether._core.types import Booleans, Floats, Integers
from tether.risk.claim_losses import CLAIM_LOSSES, claim_loss
from tether.risk.claim_steps import LossPieces
from tether.risk.claim_survey import CELL_BITS, Tally
from tether.risk.item_shapes import ItemShapes, Shapes, ShapeTable
from tether.risk.kept_share import CountsInParts
from tether.risk.needed_bins import (
    BinSums,
    Reach,
    Span,
    doubtful,
    single_scores,
    span,
)
from tether.risk.risk_curve import Sweep, checked_thresholds, costs_nothing
from tether.risk.score_order import ordered_bits
from tether.risk.score_table import LossColumn, LossTerms, ScoreBits, ScoreSums, ScoreTable

N_BINS = 1 << 13
"""About how many bins the scores are put in at first, and again in each refinement."""
COLLECTED_CLAIMS = 1 << 20
"""How many claims are collected at most; more are put in finer bins first."""
MAX_REFINEMENTS = 4
"""After so many refinements the sums stay near the limit for long, and bins are taken in turn."""
MAX_LOG_TEST_WEIGHT = 700.0
"""The largest logarithm of a relative weight of the test item: its exponential is finite."""
SHAPE_NUMBERS = 1 << 24
"""How many numbers the collected losses of items may take."""

Scan = Generator[Any, Any, "list[Sweep]"]
"""Yields jobs for a pass over the parts, receives their merged summaries, returns the sweeps."""


@dataclass(frozen=True, eq=False)
class ScanTask:
    """Which claims, which losses, at which candidates, weighted or not, and for which method."""

    tally: Tally
    groups: Collection[Any] | None
    losses: tuple[LossTerms, ...]
    thresholds: Floats | None
    envelope: bool
    weighted: bool
    log_test: float | None
    items: bool
    margin: int


def scanned_sweeps(task: ScanTask, reaches: Callable[[float, float], Sequence[Reach]]) -> Scan:
    """One sweep per loss; `reaches(total_weight, test_weight)` says which sums matter to each."""
    kinds = [claim_loss(terms.loss) for terms in task.losses]
    larger = kinds[0].safer == "larger"
    log_weight = task.tally.log_weight if task.weighted else None
    common: dict[str, Any] = {
        "groups": task.groups,
        "losses": task.losses,
        "envelope": task.envelope,
        "log_weight": log_weight,
    }
    if task.thresholds is not None:
        table = yield ScoreSums(thresholds=task.thresholds, **common)
        candidates = checked_thresholds(task.thresholds, kinds[0].safer)
        table = _with_all_thresholds(table, len(candidates))
    else:
        lows, highs = first_bins(task.tally)
        table = yield ScoreSums(lows=lows, highs=highs, **common)
    total = float(table.weights.as_floats()[0]) if task.weighted else float(task.tally.n_items)
    test = 1.0
    if log_weight is not None and task.log_test is not None:
        test = _relative_test_weight(task.log_test, log_weight)
    wanted = reaches(total, test)
    found: Span | None = None
    if task.thresholds is None:
        table, found = yield from _refined(task, table, wanted, common, larger)
        thresholds, ranks = _candidates(table, larger)
    else:
        thresholds, ranks = candidates, None
        if task.items:
            found = _threshold_span(task, table, wanted)
    shapes: ShapeTable | None = None
    if found is not None:
        low, high = _score_range(table, thresholds, found, larger, exact=ranks is not None)
        shapes = yield Shapes(task.groups, task.losses, low, high, task.thresholds)
        if shapes.n_numbers > SHAPE_NUMBERS:
            shapes = None
    return [
        _sweep(task, table, index, (total, test), thresholds, ranks, found, shapes, wanted[index])
        for index in range(len(task.losses))
    ]


def _sweep(
    task: ScanTask,
    table: ScoreTable,
    index: int,
    weights: tuple[float, float],
    thresholds: Floats,
    ranks: Integers | None,
    found: Span | None,
    shapes: ShapeTable | None,
    reach: Reach,
) -> Sweep:
    """The sweep of one of the losses."""
    terms, column = task.losses[index], table.losses[index]
    kind = claim_loss(terms.loss)
    larger, exact = kind.safer == "larger", ranks is not None
    if exact:
        sums = BinSums.of(column, terms.bound, single_scores(table), larger=larger).sums
    else:
        sums = column.totals.running(column.start).as_floats()[1:] * terms.bound
    collected = None
    read_losses = read_pieces = events = counts = None
    if shapes is not None and found is not None:
        own = ItemShapes.of(shapes, index, len(task.losses))
        events, counts = own.events, own.counts
        if exact:
            start = found.first + 1 if found.first else 0
            collected = slice(start, min(found.stop + 1, len(thresholds)))
        else:
            collected = slice(found.first, found.stop)

        def read_losses(where: slice, items: Integers | None = None) -> Iterator[Floats]:
            return own.losses(items, thresholds[where], larger=larger)

        def read_pieces(where: slice, items: Integers) -> LossPieces:
            return own.pieces(items, thresholds[where], larger=larger)

    harmless = kind in CLAIM_LOSSES.values() and costs_nothing(
        thresholds[0], kind.safer, exact=exact
    )
    return Sweep(
        thresholds=thresholds,
        sums=sums,
        envelope=sums if task.envelope else None,
        total_weight=weights[0],
        test_weight=weights[1],
        n_items=task.tally.n_items,
        effective_sample_size=_effective_sample_size(task, table),
        bound=terms.bound,
        loss=kind.name,
        loss_settings=kind.settings,
        safer=kind.safer,
        n_nonmonotone=column.n_nonmonotone,
        nonmonotone_items=(),
        exact=exact,
        weighted=task.weighted,
        test_weight_assumed=task.weighted and task.log_test is None,
        read_losses=read_losses,
        events=events,
        read_pieces=read_pieces,
        harmless_start=harmless,
        counts=counts,
        collected=collected,
        ranks=ranks,
        resolved_from=reach.low if exact else None,
        safe_mean=_safe_mean(task, column, terms.bound),
        kept_counts=_kept_counts(task.tally, table, larger=larger, exact=exact),
        can_fall=kind.can_fall and task.tally.squared_sizes > task.tally.n_claims,
    )


def _refined(
    task: ScanTask, table: ScoreTable, wanted: Sequence[Reach], common: dict[str, Any], larger: bool
) -> Generator[Any, Any, tuple[ScoreTable, Span | None]]:
    """Refine and collect bins until all that matters is known; the span in which items are."""
    items, refinements = task.items, 0
    while True:
        needed, found = _needed(task, table, wanted, larger, items=items)
        rows = int(table.counts[needed].sum())
        if rows == 0:
            return table, found
        if rows > COLLECTED_CLAIMS and refinements >= MAX_REFINEMENTS:
            if (
                items
            ):  # sums stay near the limit over too long a range for its items to be collected
                items = False
                continue
            needed = _in_front(needed, table.counts, from_end=wanted[0].boldest != larger)
            rows = int(table.counts[needed].sum())
        lows, highs = ordered_bits(table.lowest[needed]), ordered_bits(table.highest[needed])
        if rows > COLLECTED_CLAIMS:
            lows, highs = finer_bins(lows, highs, table.counts[needed])
        job = ScoreSums(lows=lows, highs=highs, every_score=rows <= COLLECTED_CLAIMS, **common)
        table = table.replaced(needed, (yield job))
        refinements += 1


def _needed(
    task: ScanTask, table: ScoreTable, wanted: Sequence[Reach], larger: bool, *, items: bool
) -> tuple[Booleans, Span | None]:
    """The bins of several scores to be refined, and the span in which items are collected."""
    single = single_scores(table)
    each = [
        BinSums.of(column, terms.bound, single, larger=larger)
        for column, terms in zip(table.losses, task.losses, strict=True)
    ]
    needed = np.zeros(len(single), dtype=np.bool_)
    for bins, reach in zip(each, wanted, strict=True):
        needed |= doubtful(bins, reach)
    found = None
    if items or any(reach.low < reach.limit and not reach.boldest for reach in wanted):
        spans = [span(bins, reach, task.margin) for bins, reach in zip(each, wanted, strict=True)]
        found = Span(min(s.first for s in spans), min(s.stop for s in spans))
        needed[found.first : found.stop] = True
    return (needed[::-1] if larger else needed) & ~single, found if items else None


def _in_front(needed: Booleans, counts: Integers, *, from_end: bool) -> Booleans:
    """The bins where the walk comes first, with as many claims as can be collected at once."""
    places = np.flatnonzero(needed)[:: -1 if from_end else 1]
    many = np.cumsum(counts[places]) > COLLECTED_CLAIMS
    chosen = np.zeros(len(needed), dtype=np.bool_)
    chosen[places[: max(int(np.argmax(many)) if many.any() else len(places), 1)]] = True
    return chosen


def first_bins(tally: Tally) -> tuple[ScoreBits, ScoreBits]:
    """Bins of scores, more of them where there are more claims: first and last score of each."""
    lows = tally.cells << CELL_BITS
    return finer_bins(lows, lows | np.uint64((1 << int(CELL_BITS)) - 1), tally.counts)


def finer_bins(lows: ScoreBits, highs: ScoreBits, counts: Integers) -> tuple[ScoreBits, ScoreBits]:
    """Divide bins into equal parts, a power of two of them, in proportion to their claims."""
    wanted = np.maximum(counts * (N_BINS / max(int(counts.sum()), 1)), 2.0)
    new_lows, new_highs = [], []
    for low, high, parts in zip(lows.tolist(), highs.tolist(), wanted.tolist(), strict=True):
        width = high - low + 1
        step = 1 << max(width.bit_length() - int(parts).bit_length(), 0)
        starts = np.arange(0, width, step, dtype=np.uint64) + np.uint64(low)
        new_lows.append(starts)
        new_highs.append(np.append(starts[1:] - np.uint64(1), np.uint64(high)))
    return np.concatenate(new_lows), np.concatenate(new_highs)


def _candidates(table: ScoreTable, larger: bool) -> tuple[Floats, Integers]:
    """The candidate at the end of each bin, safest first, and how many claims each has met."""
    if larger:
        return (
            np.append(np.inf, table.lowest[::-1]),
            np.concatenate([[0], np.cumsum(table.counts[::-1])]),
        )
    return np.append(table.lowest, np.inf), np.concatenate([[0], np.cumsum(table.counts)])


def _with_all_thresholds(table: ScoreTable, count: int) -> ScoreTable:
    """The table with one bin per threshold, also where no claim meets it."""
    place = table.keys.astype(np.int64)

    def spread(column: LossColumn) -> LossColumn:
        totals, rises = (each.gathered(place, count) for each in (column.totals, column.rises))
        return replace(column, totals=totals, rises=rises)

    counts, tops = np.zeros((2, count), dtype=np.int64)
    counts[place], tops[place] = table.counts, table.tops
    return replace(
        table,
        keys=np.arange(count, dtype=np.uint64),
        counts=counts,
        tops=tops,
        losses=tuple(spread(column) for column in table.losses),
    )


def _threshold_span(task: ScanTask, table: ScoreTable, wanted: Sequence[Reach]) -> Span:
    """The given thresholds near the limit, at which the losses of items are collected."""
    spans = []
    for column, terms, reach in zip(table.losses, task.losses, wanted, strict=True):
        sums = column.totals.running(column.start).as_floats()[1:] * terms.bound
        spans.append(span(BinSums(np.append(0.0, sums), sums, sums), reach, task.margin))
    return Span(min(s.first for s in spans), min(s.stop for s in spans))


def _score_range(
    table: ScoreTable, thresholds: Floats, found: Span, larger: bool, *, exact: bool
) -> tuple[int, int]:
    """The lowest and highest score of the bins of a span, as ordered integers."""
    if exact:
        count = len(table.keys)
        bins = slice(count - found.stop, count - found.first) if larger else slice(*found)
        ends = np.array([table.lowest[bins].min(), table.highest[bins].max()])
    else:
        ends = np.sort(thresholds[[found.first, found.stop - 1]])
        ends = ends if larger else np.nextafter(ends, -np.inf)
    low, high = ordered_bits(ends).tolist()
    return low, high


def _kept_counts(tally: Tally, table: ScoreTable, *, larger: bool, exact: bool) -> CountsInParts:
    """How many claims each candidate keeps, and how many items have none left."""
    order = slice(None, None, -1) if exact and larger else slice(None)
    met, tops = np.cumsum(table.counts[order]), np.cumsum(table.tops[order])
    if exact:  # the first candidate has met none
        met, tops = np.append(0, met), np.append(0, tops)
    kept, emptied = (met, tally.n_items - tops) if larger else (tally.n_claims - met, tops)
    sizes = tally.n_claims, tally.n_items, tally.squared_sizes
    return CountsInParts(*sizes, kept, emptied, tally.ends)


def _relative_test_weight(log_test: float, log_weight: float) -> float:
    """The weight of the test item relative to the largest of the others."""
    if log_test - log_weight > MAX_LOG_TEST_WEIGHT:
        raise ValueError(
            "weights underflow: the weight of the test item exceeds all of them by a factor "
            f"of e^{log_test - log_weight:.0f}"
        )
    return float(np.exp(log_test - log_weight))


def _effective_sample_size(task: ScanTask, table: ScoreTable) -> float:
    if not task.weighted:
        return float(task.tally.n_items)
    return float(table.weights.as_floats()[0] ** 2 / table.squares.as_floats()[0])


def _safe_mean(task: ScanTask, column: LossColumn, bound: float) -> SafeMean | None:
    """The mean loss of the safest threshold, from its sums; None for weighted items."""
    if task.weighted:
        return None
    total, squares = column.safest.as_floats()[0], column.safest_squares.as_floats()[0]
    return mean_from_moments(task.tally.n_items, float(total), float(squares), bound)
