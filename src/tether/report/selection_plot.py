"""Selections as a matplotlib figure, in the user's own style and without pyplot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tether.report.number_format import format_number
from tether.report.plot_frame import (
    ENTRY_COLORS,
    LINE_STYLES,
    PASSING_COLOR,
    PLOT_ABOVE_ALPHA_COLOR,
    draw_level,
    figure_of,
    finish_axes,
    ink,
    new_figure,
    one_line,
    start_at_zero,
)
from tether.thresholds.selection import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_selection(selection: Selection, axes: Axes | None = None) -> Figure:
    """Plot the risk along the thresholds with alpha and the threshold, and the share kept below.

    In `axes` of the user, only the risk is drawn. Several losses or groups are one line each; where
    their alphas differ, they share one scale: risk over alpha.
    """
    lines = _lines(selection)
    if axes is None:
        return plot_selections(lines, _headline(selection), cut_at_alpha=True)
    _draw_risks(lines, axes, cut_at_alpha=True)
    axes.set_title(_headline(selection), loc="left")
    return figure_of(axes)


def plot_selections(
    lines: Mapping[str, Selection], title: str, *, cut_at_alpha: bool = False
) -> Figure:
    """Plot the risk of several selections along the thresholds, and the share that is kept.

    With `cut_at_alpha` the part of a line above alpha has its own color, and lines differ by their
    style; otherwise each has its own color.
    """
    shows_kept = any(len(part.curve_kept) for part in lines.values())
    if not shows_kept:
        figure = new_figure()
        axes = figure.add_subplot()
    else:
        figure = new_figure(6.4, 5.4)
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        _draw_kept(lines, below, cut_at_alpha=cut_at_alpha)
    _draw_risks(lines, axes, cut_at_alpha=cut_at_alpha)
    axes.set_title(title, loc="left")
    if shows_kept:
        axes.set_xlabel("")
    return figure


def _draw_risks(lines: Mapping[str, Selection], axes: Axes, *, cut_at_alpha: bool) -> None:
    alphas = {part.alpha for part in lines.values()}
    relative = len(alphas) > 1
    for (name, part), (color, style) in _styled(lines, cut_at_alpha):
        unit = part.alpha if relative else 1.0
        finite = np.isfinite(part.curve_thresholds)  # +inf, which keeps nothing, has no place
        threshold, risk = part.curve_thresholds[finite], part.curve_risks[finite] / unit
        axes.plot(threshold, risk, color=color, linestyle=style, label=one_line(name))
        if cut_at_alpha:
            over = np.where(risk > part.alpha / unit, risk, np.nan)
            axes.plot(threshold, over, color=PLOT_ABOVE_ALPHA_COLOR, linestyle=style)
        if part.exists and math.isfinite(part.threshold):
            height = part.risk / unit
            axes.plot([part.threshold] * 2, [0, height], color=color, linewidth=1.2)
            axes.plot(part.threshold, height, "o", color=color, markersize=8)
    level = 1.0 if relative else next(iter(alphas))
    start_at_zero(axes, level)
    finish_axes(axes, "threshold", "risk / alpha" if relative else "risk")
    text = "alpha" if relative else f"alpha = {format_number(level)}"
    if len(lines) > 1:
        axes.axhline(level, color=ink(), linewidth=1.2, label=text)
        axes.legend(frameon=False)
    else:
        draw_level(axes, level, text)


def _draw_kept(lines: Mapping[str, Selection], axes: Axes, *, cut_at_alpha: bool) -> None:
    """Draw the share that each threshold keeps; a curve that is there already is not repeated."""
    drawn: set[bytes] = set()
    for (_, part), (color, style) in _styled(lines, cut_at_alpha):
        if part.kept is None or not len(part.curve_kept):
            continue
        finite = np.isfinite(part.curve_thresholds)
        curve = np.column_stack([part.curve_thresholds[finite], part.curve_kept[finite]])
        if curve.tobytes() not in drawn:
            axes.plot(*curve.T, color=color, linestyle=style)
            drawn.add(curve.tobytes())
        if part.exists and math.isfinite(part.threshold):
            share = part.kept.share
            axes.plot([part.threshold] * 2, [0, share], color=color, linewidth=1.2)
            axes.plot(part.threshold, share, "o", color=color, markersize=8)
    axes.set_ylim(0, 1.05)
    unit = next((part.kept.unit for part in lines.values() if part.kept is not None), "claims")
    finish_axes(axes, "threshold", f"share of {unit} kept")


def _styled(
    lines: Mapping[str, Selection], cut_at_alpha: bool
) -> list[tuple[tuple[str, Selection], tuple[str, str]]]:
    """Each line with its color and its style: lines that coincide show through each other."""
    count = len(lines)
    colors = [PASSING_COLOR] * count if cut_at_alpha else ENTRY_COLORS * count
    styles = LINE_STYLES * count
    return list(zip(lines.items(), zip(colors, styles, strict=False), strict=False))


def _lines(selection: Selection) -> dict[str, Selection]:
    """One selection per line: per group, per loss, or the selection itself."""
    if selection.groups:
        return selection.groups
    if selection.by_loss:
        return {f"{i}: {part.loss}": part for i, part in enumerate(selection.by_loss, start=1)}
    return {selection.loss: selection}


def _headline(selection: Selection) -> str:
    if not selection.exists:
        return f"{selection.method}: no threshold passes"
    if selection.groups:
        return f"{selection.method}: one threshold per group"
    title = f"{selection.method}: threshold {format_number(selection.threshold)}"
    if selection.kept is None or not selection.kept.total:
        return title
    return f"{title}, {100 * selection.kept.share:.3g} % kept"
