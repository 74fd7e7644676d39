"""A release as a matplotlib figure: the share, and the mean losses of both systems, over steps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tether.report.number_format import format_number
from tether.report.plot_frame import (
    ENTRY_COLORS,
    PASSING_COLOR,
    PLOT_ABOVE_ALPHA_COLOR,
    finish_axes,
    ink,
    legend_above,
    one_line,
)
from tether.report.releases.release_sentences import format_share
from tether.report.steps_axis import draw_means, set_loss_axis, set_steps, stack_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.rounds.releases.release_history import ReleaseHistory

BESIDE_STEP = 0.08
"""How far the means of the two systems stand left and right of their step."""


def plot_release(history: ReleaseHistory, axes: Axes | None = None) -> Figure:
    """Plot the share of each step, and below it the mean of each loss beside what is tolerated.

    In `axes` of the user, only the share is drawn.
    """
    draw_first, draw_loss = partial(_draw_share, history), partial(_draw_losses, history)
    return stack_panels(axes, draw_first, draw_loss, history.limits, 2.4)


def _draw_share(history: ReleaseHistory, axes: Axes) -> None:
    numbers = [step.number for step in history.steps]
    axes.plot(numbers, [step.share for step in history.steps], "o-", color=PASSING_COLOR)
    for number in (step.number for step in history.steps if step.stopped_by is not None):
        axes.axvline(number, color=PLOT_ABOVE_ALPHA_COLOR, linewidth=1.2, dashes=(1, 2))
    axes.set_ylim(-0.03, 1.08)
    set_steps(axes, numbers)
    title = f"share of the new system now: {format_share(history.share)}"
    if history.alarms:
        title += "\ndotted where an alarm was raised"
    finish_axes(axes, "step", "share of the keys", title)


def _draw_losses(history: ReleaseHistory, axes: Axes, name: str) -> None:
    limit, drawn = history.limits[name], []
    for system, color, shift in (
        ("old", ENTRY_COLORS[4], -BESIDE_STEP),
        ("new", ENTRY_COLORS[0], BESIDE_STEP),
    ):
        records = [(step.number, getattr(step, system)) for step in history.steps]
        means = [(at + shift, each.losses[name]) for at, each in records if name in each.losses]
        draw_means(axes, means, color, f"{system} system", "o" if system == "new" else "s")
        drawn += [each for _, each in means]
    set_loss_axis(axes, drawn, limit.bound, limit.alpha)
    set_steps(axes, [step.number for step in history.steps])
    text = f"{history.target} = {format_number(limit.alpha)}"
    axes.axhline(limit.alpha, color=ink(), linewidth=1.2, label=text)
    finish_axes(axes, "step", f"mean {one_line(name, 20)}")
    legend_above(axes)
