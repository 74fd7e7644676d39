"""A run as a matplotlib figure: beta or the share, and the mean losses, over the rounds."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from tether.report.beta_axis import beta_scale
from tether.report.number_format import format_number
from tether.report.plot_frame import (
    PASSING_COLOR,
    PLOT_ABOVE_ALPHA_COLOR,
    finish_axes,
    ink,
    legend_above,
    one_line,
)
from tether.report.steps_axis import draw_means, set_loss_axis, set_steps, stack_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.rounds.history import History


def plot_history(history: History, axes: Axes | None = None) -> Figure:
    """Plot beta, or the share in ramps, and below it the mean of each loss beside its alpha.

    In `axes` of the user, only beta or the share is drawn.
    """
    draw_first, draw_loss = partial(_draw_reach, history), partial(_draw_loss, history)
    return stack_panels(axes, draw_first, draw_loss, history.limits, 2.2)


def _draw_reach(history: History, axes: Axes) -> None:
    numbers = [record.number for record in history.rounds]
    if history.is_ramp:
        heights = [record.share for record in history.rounds]
        axes.set_ylim(-0.03, 1.08)
    else:
        found = [record.calibration for record in history.rounds]
        scale = beta_scale([-math.inf if each is None else each.log_beta for each in found])
        heights = scale.heights
        axes.set_yticks(list(scale.ticks), list(scale.ticks.values()))
        axes.set_ylim(*scale.limits)
    axes.plot(numbers, heights, "o-", color=PASSING_COLOR)
    for number in sorted({alarm.round for alarm in history.alarms}):
        axes.axvline(number, color=PLOT_ABOVE_ALPHA_COLOR, linewidth=1.2, dashes=(1, 2))
    set_steps(axes, numbers)
    title = f"{len(numbers)} rounds" if numbers else "no round has begun"
    if history.alarms:
        title += ", dotted where an alarm was raised"
    what = "share of the new policy" if history.is_ramp else "beta"
    finish_axes(axes, "round", what, title)


def _draw_loss(history: History, axes: Axes, name: str) -> None:
    limit = history.limits[name]
    means = [(each.number, each.losses[name]) for each in history.rounds if name in each.losses]
    draw_means(axes, means, PASSING_COLOR, "mean so far")
    set_loss_axis(axes, [each for _, each in means], limit.bound, limit.alpha)
    set_steps(axes, [record.number for record in history.rounds])
    text = f"{history.target} = {format_number(limit.alpha)}"
    axes.axhline(limit.alpha, color=ink(), linewidth=1.2, label=text)
    single = len(history.limits) == 1
    finish_axes(axes, "round", "mean loss" if single else f"mean {one_line(name, 20)}")
    legend_above(axes)
