"""Marks that several charts share: the axis of rounds, points with intervals, lines, notes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tether.report.chart_canvas import (
    ABOVE_ALPHA_COLOR,
    ACCENT_COLOR,
    BACKGROUND_COLOR,
    FONT_SIZE,
    TEXT_COLOR,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

    from tether.rounds.history import Estimate, RoundRecord

LARGEST_DRAWN = 1e300
"""Numbers beyond this are drawn in a unit of their own, since axes need room above them."""
UNIT_OF_LARGE = 1e100


def chart_unit(values: Sequence[float]) -> tuple[float, str]:
    """The unit in which numbers are drawn, and what the label of the axis says about it."""
    if any(LARGEST_DRAWN < abs(value) < math.inf for value in values):
        return UNIT_OF_LARGE, f" (in units of {UNIT_OF_LARGE:g})"
    return 1.0, ""


def in_unit(estimate: Estimate, unit: float) -> Estimate:
    """An estimate in another unit."""
    ends = {name: getattr(estimate, name) / unit for name in ("mean", "lower", "upper")}
    return replace(estimate, **ends)


def set_round_axis(axes: Axes, round_numbers: Sequence[int], width: float) -> None:
    """Put the rounds on the x axis, with integers as ticks."""
    first, last = (min(round_numbers), max(round_numbers)) if round_numbers else (1, 1)
    space = max(0.5, 0.02 * (last - first))
    axes.set_xlim(first - space, last + space)
    ticks = integer_locator(min(12, width // 60)).tick_values(first, last)
    axes.set_xticks(sorted({int(tick) for tick in ticks if first <= tick <= last} | {first}))


def integer_locator(max_intervals: float) -> MaxNLocator:
    """Ticks at integers, with at most about this many intervals between them."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=int(max_intervals), integer=True, steps=[1, 2, 5, 10])


def plot_estimates(
    axes: Axes,
    estimates: Sequence[tuple[RoundRecord, Estimate]],
    round_count: int,
    alpha: float = math.inf,
) -> None:
    """Plot means with their intervals: dots, or rings where only the safe policy acted.

    A mean above `alpha` is a triangle, filled if the lower limit is above `alpha` too: a mean
    above `alpha` alone is often chance.
    """
    size = 7.0 if round_count <= 30 else 5.0 if round_count <= 80 else 3.4
    markers: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    intervals: dict[str, list[tuple[float, float]]] = {ACCENT_COLOR: [], ABOVE_ALPHA_COLOR: []}
    for record, estimate in estimates:
        clearly_above, above = estimate.lower > alpha, estimate.mean > alpha
        intervals[ABOVE_ALPHA_COLOR if clearly_above else ACCENT_COLOR] += [
            (record.number, estimate.lower),
            (record.number, estimate.upper),
            (math.nan, math.nan),
        ]
        color, shape = (ABOVE_ALPHA_COLOR, "^") if above else (ACCENT_COLOR, "o")
        safe_only = 0 < record.rows == record.safe_rows
        filled = clearly_above if above else not safe_only
        key = (shape, color, color if filled else BACKGROUND_COLOR)
        markers.setdefault(key, []).append((record.number, estimate.mean))
    for color, ends in intervals.items():
        axes.plot(*columns(ends), color=color, linewidth=size / 3, alpha=0.45)
    for (shape, color, face), positions in markers.items():
        axes.plot(
            *columns(positions),
            shape,
            markersize=size * (1.25 if shape == "^" else 1),
            markerfacecolor=face,
            markeredgecolor=color,
            markeredgewidth=1.5,
        )


def plot_line(
    axes: Axes, x: Sequence[float], y: Sequence[float], hollow: Sequence[bool] = ()
) -> None:
    """Plot a line through dots; those marked in `hollow` become rings."""
    size = 5.5 if len(x) <= 30 else 2.6 if len(x) <= 80 else 0.0
    axes.plot(x, y, color=ACCENT_COLOR, linewidth=1.6, marker="o" if size else "", markersize=size)
    rings = [point for point, ring in zip(zip(x, y, strict=True), hollow, strict=False) if ring]
    if rings:
        style: dict[str, Any] = {
            "markerfacecolor": BACKGROUND_COLOR,
            "markeredgecolor": ACCENT_COLOR,
            "markeredgewidth": 1.5,
        }
        axes.plot(*columns(rings), "o", markersize=max(size, 4.0), **style)


def label_level(
    axes: Axes, y: float, text: str, color: str = TEXT_COLOR, outside: bool = False
) -> None:
    """Label a horizontal line: on its left end, or outside the axes next to its right end."""
    axes.annotate(
        text,
        (float(outside), y),
        (6, 0) if outside else (2, 4),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center" if outside else "bottom",
        color=color,
        fontsize=FONT_SIZE,
        fontweight="bold" if color == TEXT_COLOR else "normal",
        annotation_clip=False,
    )


def move_apart(first: float, second: float, min_distance: float) -> tuple[float, float]:
    """Move two heights apart to at least this distance, so that their labels do not overlap."""
    shift = max(min_distance - abs(second - first), 0.0) / 2
    return (first - shift, second + shift) if first <= second else (first + shift, second - shift)


def columns(rows: Sequence[Sequence[float]], width: int = 2) -> tuple[Sequence[float], ...]:
    """Transpose rows to columns; `width` empty columns if there are no rows."""
    return tuple(zip(*rows, strict=True)) if rows else ((),) * width
