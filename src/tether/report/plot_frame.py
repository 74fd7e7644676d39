"""What all plots share: figures without pyplot, colors, and labels that cover no other text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.words import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PASSING_COLOR = "#0b8a76"
PLOT_ABOVE_ALPHA_COLOR = "#c8372d"
ENTRY_COLORS = ("#0b8a76", "#b7791f", "#3f6fb5", "#9254a8", "#6b7280", "#a8553a")
"""The colors of several results in one plot; each is readable on white and on black."""
LINE_STYLES = ("-", "--", ":", "-.")
ROOM_ABOVE = 1.08
"""How much higher than everything drawn an axis is, so that nothing touches the title."""
LABELED_BELOW = 0.75
"""A horizontal line higher than this in its axes has its label below it, since a title is above."""


def new_figure(width: float = 6.4, height: float = 4.0) -> Figure:
    """Make a figure whose margins fit its labels, and which a notebook shows by itself."""
    try:
        from tether.report.notebook_figure import NotebookFigure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'tether[plot]'") from error
    return NotebookFigure(figsize=(width, height), layout="constrained")


def figure_of(axes: Axes) -> Figure:
    """The whole figure, if the axes are in a subfigure."""
    parent: Any = axes.figure
    figure: Figure = parent.figure
    return figure


def ink() -> str:
    """The color of text in the user's style."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def finish_axes(axes: Axes, x_label: str, y_label: str, title: str = "") -> None:
    """Label the axes, without a frame at the top and at the right."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    if title:
        axes.set_title(title, loc="left")


def start_at_zero(axes: Axes, *heights: float) -> None:
    """Let the y axis begin at 0 and end above everything drawn and above these heights."""
    low, high = axes.dataLim.intervaly
    known = [value for value in (low, high, *heights) if np.isfinite(value)]
    axes.set_ylim(0, ROOM_ABOVE * max(known, default=1.0) or 1.0)


def draw_level(
    axes: Axes,
    level: float,
    text: str,
    *,
    above: bool | None = None,
    at_right: bool = False,
    line_style: str = "-",
) -> None:
    """Draw a horizontal line with its label at the left end, or at the right end.

    By default the label is above the line, and below it near the top. Call it when the limits of
    the axes are set.
    """
    axes.axhline(level, color=ink(), linewidth=1.2, linestyle=line_style)
    if above is None:
        low, high = axes.get_ylim()
        above = level - low < LABELED_BELOW * (high - low)
    axes.annotate(
        text,
        (0.99 if at_right else 0.01, level),
        (0, 3 if above else -3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="right" if at_right else "left",
        va="bottom" if above else "top",
        color=ink(),
        # The label stays readable where a curve crosses it.
        bbox={"facecolor": axes.get_facecolor(), "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
        zorder=4,
    )


def legend_above(axes: Axes) -> None:
    """Put the legend above axes that have no title, where it covers nothing."""
    axes.legend(
        frameon=False,
        ncols=3,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderpad=0,
        borderaxespad=0.3,
    )


def with_crossings(x: Floats, y: Floats, level: float) -> tuple[Floats, Floats]:
    """Add a point to a line wherever it crosses a level, so that it can be cut there."""
    gap = y - level
    before = np.flatnonzero(gap[1:] * gap[:-1] < 0)
    step = x[before + 1] - x[before]
    crossings = x[before] + step * gap[before] / (gap[before] - gap[before + 1])
    return np.insert(x, before + 1, crossings), np.insert(y, before + 1, level)


def one_line(text: str, length: int = 40) -> str:
    """A name that fits into a legend or beside an axis; `$` stands for itself.

    Control characters are shown as escape sequences. A legend leaves out names that begin with an
    underscore, so a space is put before it.
    """
    text = visible(" ".join(text.split()))
    text = f" {text}" if text.startswith("_") else text
    text = text if len(text) <= length else f"{text[: length - 1]}…"
    return text.replace("$", r"\$")
