"""Marks that the charts along the rounds share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.report.number_format import beta
from tether.report.svg import ACCENT, FONT, INK, OVER, PAPER
from tether.rounds.history import Estimate, RoundRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def along(axes: Axes, numbers: Sequence[int], width: float) -> None:
    """Rounds from left to right, with whole numbers under them."""
    first, last = (min(numbers), max(numbers)) if numbers else (1, 1)
    space = max(0.5, 0.02 * (last - first))
    axes.set_xlim(first - space, last + space)
    ticks = locator(min(12, width // 60)).tick_values(first, last)
    axes.set_xticks(sorted({int(tick) for tick in ticks if first <= tick <= last} | {first}))


def locator(most: float) -> Any:
    """Whole numbers, at about so many places."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=int(most), integer=True, steps=[1, 2, 5, 10])


def points(
    axes: Axes,
    seen: Sequence[tuple[RoundRecord, Estimate]],
    rounds: int,
    over: float = math.inf,
) -> None:
    """Means with their limits: dots, rings where only the safe policy acted, triangles above.

    A triangle is full where the lower limit is above too: less than that is often chance.
    """
    size = 7.0 if rounds <= 30 else 5.0 if rounds <= 80 else 3.4
    shapes: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    limits: dict[str, list[tuple[float, float]]] = {ACCENT: [], OVER: []}
    for each, value in seen:
        ends = [(each.number, value.lower), (each.number, value.upper), (math.nan, math.nan)]
        limits[OVER if value.lower > over else ACCENT] += ends
        color, shape = (OVER, "^") if value.mean > over else (ACCENT, "o")
        alone = 0 < each.rows == each.safe_rows
        filled = value.lower > over if value.mean > over else not alone
        place = (each.number, value.mean)
        shapes.setdefault((shape, color, color if filled else PAPER), []).append(place)
    for color, where in limits.items():
        axes.plot(*columns(where), color=color, linewidth=size / 3, alpha=0.45)
    for (shape, color, face), where in shapes.items():
        axes.plot(
            *columns(where),
            shape,
            markersize=size * (1.25 if shape == "^" else 1),
            markerfacecolor=face,
            markeredgecolor=color,
            markeredgewidth=1.5,
        )


def line(axes: Axes, x: Sequence[float], y: Sequence[float], hollow: Sequence[bool] = ()) -> None:
    """A quiet line through dots; hollow ones where said."""
    size = 5.5 if len(x) <= 30 else 2.6 if len(x) <= 80 else 0.0
    axes.plot(x, y, color=ACCENT, linewidth=1.6, marker="o" if size else "", markersize=size)
    rings = [pair for pair, ring in zip(zip(x, y, strict=True), hollow, strict=False) if ring]
    if rings:
        style: dict[str, Any] = {
            "markerfacecolor": PAPER,
            "markeredgecolor": ACCENT,
            "markeredgewidth": 1.5,
        }
        axes.plot(*columns(rings), "o", markersize=max(size, 4.0), **style)


def note(axes: Axes, y: float, text: str, color: str = INK, outside: bool = False) -> None:
    """A word on a level line: on its left end, or beside its right one."""
    axes.annotate(
        text,
        (float(outside), y),
        (6, 0) if outside else (2, 4),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        va="center" if outside else "bottom",
        color=color,
        fontsize=FONT,
        fontweight="bold" if color == INK else "normal",
        annotation_clip=False,
    )


def apart(one: float, other: float, least: float) -> tuple[float, float]:
    """Two heights, moved apart to at least so much, so that words on them can be read."""
    lack = max(least - abs(other - one), 0.0) / 2
    return (one - lack, other + lack) if one <= other else (one + lack, other - lack)


def beta_ticks(low: float, high: float) -> dict[float, str]:
    """Round betas between two logs: powers of ten, with 2 and 5 where there is room."""
    for leading in ((1, 2, 5), (1, 3), (1,)):
        exponents = range(math.floor(low / math.log(10)) - 1, math.ceil(high / math.log(10)) + 1)
        ticks = [math.log(lead) + power * math.log(10) for power in exponents for lead in leading]
        ticks = [tick for tick in ticks if low - 0.2 <= tick <= high + 0.2]
        if len(ticks) <= 6:
            break
    ticks = ticks[:: math.ceil(len(ticks) / 6) or 1]
    return {tick: beta(tick) for tick in ticks}


def columns(rows: Sequence[Any], width: int = 2) -> Any:
    """Rows of pairs, or of more, as columns; empty columns where there are none."""
    return tuple(zip(*rows, strict=True)) if rows else (np.empty(0),) * width


def listed(rounds: Sequence[int]) -> str:
    """Rounds by number, the first dozen of them."""
    shown = ", ".join(map(str, rounds[:12])) + (" and more" if len(rounds) > 12 else "")
    return f"round {shown}" if len(rounds) == 1 else f"rounds {shown}"
