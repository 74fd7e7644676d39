"""Plots over rounds or steps: their panels, integer ticks, and means with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from tether.report.chart_marks import integer_locator
from tether.report.plot_frame import ROOM_ABOVE, figure_of, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.rounds.history import Estimate

MAX_STEP_TICKS = 10


def stack_panels(
    axes: Axes | None,
    draw_reach: Callable[[Axes], None],
    draw_loss: Callable[[Axes, str], None],
    losses: Collection[str],
    height_per_loss: float,
) -> Figure:
    """Draw beta or a share and, in a panel below it, each loss.

    In `axes` of the user, only beta or the share is drawn.
    """
    if axes is not None:
        draw_reach(axes)
        return figure_of(axes)
    figure = new_figure(6.4, 2.2 + height_per_loss * len(losses))
    first, *panels = figure.subplots(1 + len(losses), 1, sharex=True)
    draw_reach(first)
    for panel, name in zip(panels, losses, strict=True):
        draw_loss(panel, name)
    for panel in (first, *panels[:-1]):
        panel.set_xlabel("")
    return figure


def set_steps(axes: Axes, numbers: Sequence[int]) -> None:
    """Limit the x axis to these rounds or steps, with integers as ticks."""
    first, last = (min(numbers), max(numbers)) if numbers else (1, 1)
    space = max(0.5, 0.02 * (last - first))
    axes.set_xlim(first - space, last + space)
    ticks = integer_locator(MAX_STEP_TICKS).tick_values(first, last)
    axes.set_xticks([int(tick) for tick in ticks if first <= tick <= last] or [first])


def draw_means(
    axes: Axes,
    means: Sequence[tuple[float, Estimate]],
    color: str,
    label: str,
    marker: str = "o",
) -> None:
    """Draw means as dots, each with its interval."""
    x = [place for place, _ in means]
    axes.vlines(
        x,
        [each.lower for _, each in means],
        [each.upper for _, each in means],
        color=color,
        linewidth=1.6,
        alpha=0.5,
    )
    axes.plot(x, [each.mean for _, each in means], marker, color=color, label=label)


def set_loss_axis(axes: Axes, means: Sequence[Estimate], bound: float, *levels: float) -> None:
    """Show the means and the levels, and of wide intervals what fits: at most three alphas."""
    top = max([3 * levels[0] if levels else 0.0, *(1.15 * each.mean for each in means), *levels])
    top = min(top if top > 0 else bound, bound) if math.isfinite(bound) else top
    axes.set_ylim(0, ROOM_ABOVE * top)
