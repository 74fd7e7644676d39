"""One round as a matplotlib figure: the risk along beta, and what has come of the promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from tether.report.chart_marks import in_unit
from tether.report.figures import draw_calibration
from tether.report.plot_frame import (
    PASSING_COLOR,
    PLOT_ABOVE_ALPHA_COLOR,
    ROOM_ABOVE,
    figure_of,
    finish_axes,
    ink,
    new_figure,
    one_line,
)
from tether.report.steps_axis import draw_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.rounds.history import RoundRecord


class Levels(NamedTuple):
    """What one loss may be, and what is promised for it."""

    alpha: float
    promise: float


def plot_round(record: RoundRecord, axes: Axes | None = None) -> Figure:
    """Plot the calibrated risk along beta, and the mean losses so far beside alpha and promise.

    In `axes` of the user, only the mean losses are drawn. A round without a calibration has no
    risk to draw; one of a ramp shows the losses of its own policy.
    """
    if axes is not None:
        _draw_losses(record, axes)
        return figure_of(axes)
    if record.calibration is None:
        figure = new_figure(5.0, 4.0)
        _draw_losses(record, figure.add_subplot())
        return figure
    figure = new_figure(10.0, 4.0)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    draw_calibration(record.calibration, left)
    _draw_losses(record, right)
    return figure


def _draw_losses(record: RoundRecord, axes: Axes) -> None:
    """Draw each loss in units of its alpha, if there are several; otherwise as it is."""
    levels = _levels(record)
    realized = record.losses if record.ramp_share is None else record.policy_losses
    names = list(levels) or list(realized)
    relative = len(names) > 1 and bool(levels)
    tops = []
    for place, name in enumerate(names):
        unit = levels[name].alpha if relative else 1.0
        first = place == 0
        if name in realized:
            mean = in_unit(realized[name], unit)
            draw_means(axes, [(place, mean)], PASSING_COLOR, "mean so far" if first else "")
            tops += [mean.mean, min(mean.upper, 3 * mean.mean)]
        for word, color in (("alpha", ink()), ("promise", PLOT_ABOVE_ALPHA_COLOR)):
            if name in levels:
                height = getattr(levels[name], word) / unit
                label = word if first else "_nolegend_"
                axes.hlines(height, place - 0.3, place + 0.3, color=color, label=label)
                tops.append(height)
    axes.set_ylim(0, ROOM_ABOVE * max([*tops, 0.0]) or 1.0)
    axes.set_xlim(-0.6, max(len(names), 1) - 0.4)
    axes.set_xticks(range(len(names)), [one_line(name, 60 // max(len(names), 1)) for name in names])
    title = f"round {record.number}: {record.observed:,} of {record.rows:,} losses observed"
    finish_axes(axes, "", "loss / alpha" if relative else "loss", title)
    if tops:
        axes.legend(frameon=False)


def _levels(record: RoundRecord) -> Mapping[str, Levels]:
    if record.ramp_share is not None:
        promises = record.ramp_share.promises
        return {
            name: Levels(each.alpha, promises[name])
            for name, each in record.ramp_share.guardrails.items()
        }
    if record.calibration is None:
        return {}
    losses = record.calibration.losses
    return {name: Levels(each.alpha, each.promise) for name, each in losses.items()}
