"""What several alphas would buy, as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether.control.alpha_grid import AlphaGrid
from tether.report.plot_frame import figure_of, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TETHERED_REWARD_COLOR, SAFE_REWARD_COLOR = "#0b6b5d", "#1c2226"


def plot_alpha_grid(grid: AlphaGrid, axes: Axes | None = None) -> Figure:
    """Plot the expected reward of the tethered policy along alpha or promise, with intervals.

    The reward of the safe policy is a horizontal line. Without rewards, the share of decisions that
    change is drawn. Alphas that are mappings are numbered.
    """
    if axes is not None:
        _draw(grid, axes)
        return figure_of(axes)
    figure = new_figure()
    _draw(grid, figure.add_subplot())
    return figure


def _draw(grid: AlphaGrid, axes: Axes) -> None:
    columns = grid.to_frame()
    named = "reward" if "reward" in columns else "changed"
    words = grid.asked
    numbered = len(grid.calibrations[0].losses) > 1
    alphas = columns.get("alpha" if words == "alpha" else "asked_promise")
    if alphas is None:
        alphas = np.arange(1.0, len(grid.calibrations) + 1)
    order = np.argsort(alphas, kind="stable")
    if named == "reward":
        low, high = (columns[f"{named}_{end}"][order] for end in ("lower", "upper"))
        seen = np.isfinite(high - low)
        axes.vlines(
            alphas[order][seen], low[seen], high[seen], color=TETHERED_REWARD_COLOR, linewidth=1.6
        )
    axes.plot(
        alphas[order], columns[named][order], "o-", color=TETHERED_REWARD_COLOR, label="tethered"
    )
    first = grid.calibrations[0].gain
    if first is not None and first.reward is not None and first.reward.safe.mean is not None:
        axes.axhline(first.reward.safe.mean, color=SAFE_REWARD_COLOR, label="safe")
        axes.legend(frameon=False)
    axes.set_xlabel(f"number of the {words}s" if numbered else words)
    axes.set_ylabel("expected reward" if named == "reward" else "share of decisions that change")
    axes.spines[["top", "right"]].set_visible(False)
