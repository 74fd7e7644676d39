"""Where charts are drawn: empty matplotlib axes in the report's style, and placeholder colors.

Every role has a placeholder color. `svg_export` replaces these colors by classes, so that the style
sheet of the page decides what a role looks like: in light, in dark and in print.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tether._core.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT_COLOR = "#00000a"
MUTED_COLOR = "#000014"
LINE_COLOR = "#00001e"
ACCENT_COLOR = "#000028"
ABOVE_ALPHA_COLOR = "#000032"
BACKGROUND_COLOR = "#00003c"
COLOR_ROLES = {
    TEXT_COLOR: "text",
    MUTED_COLOR: "muted",
    LINE_COLOR: "line",
    ACCENT_COLOR: "accent",
    ABOVE_ALPHA_COLOR: "above-alpha",
    BACKGROUND_COLOR: "background",
}
FONT_SIZE = 12.0
MARGIN_ABOVE = 30.0
MIN_MARGIN_FOR_X_LABEL = 30.0
"""A lower margin above this many pixels has room for the label of the x axis below the ticks."""


@contextmanager
def matplotlib_defaults() -> Iterator[None]:
    """Draw with matplotlib's default settings, and restore the user's afterwards."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(
            "the report and plots need matplotlib: pip install 'tether[plot]'"
        ) from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield


def blank_axes(
    width: float, height: float, left: float = 46.0, right: float = 12.0, below: float = 28.0
) -> tuple[Figure, Axes]:
    """Make an empty figure of this size, with axes in the style that all charts share.

    Sizes and margins are in pixels. Margins are fixed: fitting them to their labels would take
    longer than drawing the chart.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    inner = width - left - right, height - below - MARGIN_ABOVE
    axes = figure.add_axes((left / width, below / height, inner[0] / width, inner[1] / height))
    axes.patch.set_visible(False)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(LINE_COLOR)
    axes.grid(axis="y", color=LINE_COLOR, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelcolor=MUTED_COLOR, labelsize=FONT_SIZE, pad=6)
    axes.tick_params(axis="x", pad=8)
    return figure, axes


def label_axes(axes: Axes, x: str, y: str) -> None:
    """Label the axes: y above its ticks; x below its ticks or, without room, left of them."""
    figure, box = axes.figure, axes.get_position()
    style: dict[str, Any] = {"color": MUTED_COLOR, "fontsize": FONT_SIZE}
    figure.text(0, 1 - 2 / figure.bbox.height, y, ha="left", va="top", **style)
    if box.y0 * figure.bbox.height > MIN_MARGIN_FOR_X_LABEL:
        figure.text(box.x1, 3 / figure.bbox.height, x, ha="right", va="bottom", **style)
    else:
        figure.text(0, box.y0 - 8 / figure.bbox.height, x, ha="left", va="top", **style)


def pixel_positions(axes: Axes, x: ArrayLike, y: ArrayLike) -> Floats:
    """Where data points are in the drawing, in pixels from its upper left corner."""
    axes.get_ylim()  # matplotlib computes automatic limits only when they are read
    positions = axes.transData.transform(np.column_stack([x, y]))
    positions[:, 1] = axes.figure.bbox.height - positions[:, 1]
    return np.asarray(positions)
