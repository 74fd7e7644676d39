"""A plan as a matplotlib figure: how many rows other alphas would need."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tether.planning.plan_result import Plan
from tether.planning.plan_summary import confidence_in_words
from tether.report.number_format import format_number
from tether.report.plot_frame import (
    ENTRY_COLORS,
    figure_of,
    finish_axes,
    ink,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_plan(plan: Plan, axes: Axes | None = None) -> Figure:
    """Plot the rows that are needed, and those that are likely to be enough, against alpha.

    If a promise was named, against the promise. The named level is marked, and so is the safe
    policy's risk, below which no number of rows is enough.
    """
    if axes is None:
        figure = new_figure()
        _draw(plan, figure.add_subplot())
        return figure
    _draw(plan, axes)
    return figure_of(axes)


def _draw(plan: Plan, axes: Axes) -> None:
    table = plan.curve()
    what = "alpha" if plan.promise is None else "promise"
    levels = table[what]
    named = plan.alpha if plan.promise is None else plan.promise
    assert named is not None
    lines = {
        f"enough with probability {plan.pass_probability:g}": "rows_likely",
        "enough if their mean loss is the safe risk": "rows_needed",
    }
    for (label, name), color in zip(lines.items(), ENTRY_COLORS, strict=False):
        rows = np.where(np.isfinite(table[name]), table[name], np.nan)
        axes.plot(levels, rows, color=color, label=label)
        at = getattr(plan, name)
        if math.isfinite(at):
            axes.plot(named, at, "o", color=color, markersize=8)
    axes.axvline(plan.safe_risk, color=ink(), linewidth=1.2, dashes=(1, 2), label="safe risk")
    axes.set_yscale("log")
    ends = plan.safe_risk, float(levels.min()), float(levels.max())
    space = 0.04 * (max(ends) - min(ends)) or 0.01
    axes.set_xlim(min(ends) - space, max(ends) + space)
    enough = "no number of rows is enough"
    if plan.possible:
        enough = f"{format_number(plan.rows_likely)} rows are likely enough"
    title = f"{what} {format_number(named)}{confidence_in_words(plan)}: {enough}"
    finish_axes(axes, what, "rows of the safe policy", title)
    axes.legend(frameon=False)
