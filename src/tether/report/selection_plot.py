"""A selection as a matplotlib figure, in the user's own style and without pyplot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.report.number_format import format_number
from tether.risk.selection import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, ACCENT, OVER = "#1c2226", "#0b6b5d", "#b3261e"
GROUP_LINE_STYLES = ("-", "--", ":", "-.")


def plot_selection(selection: Selection, ax: Axes | None = None) -> Figure:
    """The risk along the thresholds, with alpha and the chosen threshold.

    Draws into `ax`, or into a figure of its own. Several losses or groups are one line each; where
    their alphas differ, they share one scale: risk over alpha.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'tether[plot]'") from error
    if ax is None:
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        _draw(selection, figure.add_subplot())
        return figure
    _draw(selection, ax)
    inner: Any = ax.figure
    outer: Figure = inner.figure  # the figure itself, if `ax` is in a subfigure
    return outer


def _draw(selection: Selection, axes: Axes) -> None:
    lines = _lines(selection)
    relative = len({part.alpha for part in lines.values()}) > 1
    for (name, part), style in zip(lines.items(), GROUP_LINE_STYLES * len(lines), strict=False):
        unit = part.alpha if relative else 1.0
        curve = part.curve()
        finite = np.isfinite(curve.threshold)  # +inf, which keeps nothing, has no place on an axis
        threshold, risk = curve.threshold[finite], curve.risk[finite] / unit
        over = risk > part.alpha / unit
        axes.plot(threshold, risk, color=ACCENT, linestyle=style, label=name)
        axes.plot(threshold, np.where(over, risk, np.nan), color=OVER, linestyle=style)
        if part.exists and math.isfinite(part.threshold):
            height = part.risk / unit
            axes.plot([part.threshold] * 2, [0, height], color=ACCENT, linewidth=1.2)
            axes.plot(part.threshold, height, "o", color=ACCENT, markersize=8)
    level = 1.0 if relative else selection.alpha
    axes.axhline(level, color=INK, linewidth=1.2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("threshold")
    axes.set_ylabel("risk / alpha" if relative else "risk")
    axes.spines[["top", "right"]].set_visible(False)
    label = "alpha" if relative else f"alpha = {format_number(selection.alpha)}"
    axes.text(0.01, level, label, transform=axes.get_yaxis_transform(), va="bottom", color=INK)
    axes.set_title(_headline(selection), loc="left")
    if len(lines) > 1:
        axes.legend(frameon=False)


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
    return f"{selection.method}: threshold {format_number(selection.threshold)}"
