"""A log as a matplotlib figure: how far the policies are apart, and where the losses are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether._core.words import Columns
from tether.control.log import Log
from tether.report.beta_axis import beta_ticks
from tether.report.number_format import format_count, format_percent
from tether.report.plot_frame import (
    ENTRY_COLORS,
    PASSING_COLOR,
    figure_of,
    finish_axes,
    new_figure,
    one_line,
    start_at_zero,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIO_BARS, RATIO_BINS = 40, 10


def plot_log(log: Log, axes: Axes | None = None) -> Figure:
    """Plot the distribution of the ratios, and below it the mean loss of rows with similar ratios.

    In `axes` of the user, only the mean loss is drawn. Rows that the optimized policy never takes
    have no ratio to be drawn at; the title counts them. Several losses are drawn relative to their
    own means.
    """
    if axes is not None:
        _draw_losses(log, axes)
        axes.set_title(_title(log), loc="left")
        return figure_of(axes)
    figure = new_figure(6.4, 5.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    _draw_losses(log, below)
    _draw_ratios(log, above)
    above.set_title(_title(log), loc="left")
    return figure


def _draw_ratios(log: Log, axes: Axes) -> None:
    ratios = log.log_ratio[np.isfinite(log.log_ratio)]
    if len(ratios):
        axes.hist(ratios, bins=RATIO_BARS, color=PASSING_COLOR, alpha=0.6)
    finish_axes(axes, "", "rows")


def _draw_losses(log: Log, axes: Axes) -> None:
    table = by_ratio(log)
    taken = np.isfinite(table["lowest_log_ratio"])
    low, high = table["lowest_log_ratio"][taken], table["highest_log_ratio"][taken]
    names = [name for name in table if f"{name}_error" in table]
    tops = []
    for name, color in zip(names, ENTRY_COLORS * len(names), strict=False):
        own = float((table[name] * table["rows"]).sum() / table["rows"].sum())
        unit = (own or 1.0) if len(names) > 1 else 1.0
        mean, error = (table[each][taken] / unit for each in (name, f"{name}_error"))
        error = np.where(np.isfinite(error), 2 * error, 0.0)
        middle = (low + high) / 2
        axes.hlines(mean, low, high, color=color, linewidth=1.6)
        axes.vlines(middle, np.maximum(mean - error, 0), mean + error, color=color, linewidth=1.2)
        axes.plot(middle, mean, "o", color=color, label=one_line(name))
        tops += [float(value) for value in mean + error]
    start_at_zero(axes, *tops)
    if len(low):
        space = 0.04 * float(high.max() - low.min()) or 0.5
        limits = float(low.min()) - space, float(high.max()) + space
        axes.set_xlim(*limits)
        ticks = beta_ticks(*limits)
        axes.set_xticks(list(ticks), list(ticks.values()))
    relative = len(names) > 1
    finish_axes(
        axes,
        "optimized over safe probability of the logged action",
        "mean loss / overall mean" if relative else "mean loss ± 2 standard errors",
    )
    if relative:
        axes.legend(frameon=False)


def _title(log: Log) -> str:
    count = len(log.log_ratio)
    never = int(np.isneginf(log.log_ratio).sum())
    title = f"{format_count(count, 'row')}, worth {log.overlap:,.0f} for the optimized policy"
    if never:
        title += f"\n{format_percent(never / count)} of them it never takes"
    return title


def by_ratio(log: Log, bins: int = RATIO_BINS) -> Columns:
    """The mean loss of rows with similar ratios, in groups of about equal size.

    Equal ratios stay together. Rows that the optimized policy never takes are the first group.
    """
    ratio = log.log_ratio
    never, rest = np.flatnonzero(np.isneginf(ratio)), np.flatnonzero(ratio > -np.inf)
    groups = [never] if len(never) else []
    if len(rest):
        order = rest[np.argsort(ratio[rest], kind="stable")]
        starts = ratio[order][np.arange(1, bins) * len(order) // bins]
        starts = np.unique(np.searchsorted(ratio[order], starts, side="left"))
        groups += [part for part in np.split(order, starts) if len(part)]
    table = Columns(
        lowest_log_ratio=np.array([ratio[rows].min() for rows in groups]),
        highest_log_ratio=np.array([ratio[rows].max() for rows in groups]),
        rows=np.array([len(rows) for rows in groups]),
    )
    for name, losses in log.loss.items():
        table[name] = np.array([losses[rows].mean() for rows in groups])
        table[f"{name}_error"] = np.array(
            [
                losses[rows].std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
                for rows in groups
            ]
        )
    return table
