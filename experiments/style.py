"""One look for all figures: thin axes, no frames, colours that stay apart for colour-blind eyes."""

from __future__ import annotations

from typing import Any

BLUE, ORANGE, GREEN, RED = "#0072b2", "#e07b00", "#00896b", "#b8293d"
PURPLE, GREY, INK = "#8a5aa8", "#8c8c8c", "#262626"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)


def panels(columns: int = 1, rows: int = 1, *, width: float = 4.2, height: float = 3.2) -> Any:
    """A figure and its axes in this style: one Axes, or an array of them."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    settings = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": INK,
        "axes.linewidth": 0.7,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "lines.linewidth": 1.7,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "svg.fonttype": "none",
    }
    mpl.rcParams.update(settings)
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows))


def label(axes: Any, x: float, y: float, text: str, colour: str = INK, **more: Any) -> None:
    """A word beside what it names, in its colour, in place of a legend."""
    more = {"ha": "left", "va": "center", "fontsize": 8.5, **more}
    axes.text(x, y, text, color=colour, **more)


def band(axes: Any, x: Any, mean: Any, error: Any, colour: str, **more: Any) -> None:
    """A line with a band of two standard errors to either side."""
    import numpy as np

    mean, error = np.asarray(mean), np.nan_to_num(np.asarray(error))
    axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.18, lw=0)
    axes.plot(x, mean, color=colour, **more)
