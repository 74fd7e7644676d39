"""A gain as a matplotlib figure: expected rewards and losses of the three policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tether.control.gains import Gain, PolicyMeans
from tether.report.number_format import format_percent
from tether.report.plot_frame import figure_of, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAIN_COLORS = {"safe": "#1c2226", "tethered": "#0b6b5d", "optimized": "#b3261e"}
"""The color of each policy, in the order in which they are drawn."""


def plot_gain(gain: Gain, axes: Axes | None = None) -> Figure:
    """Plot each policy's mean with its interval, one panel per quantity.

    A policy whose mean is unknown has no point. In `axes` of the user, only the rewards are drawn,
    or the first loss if there are none.
    """
    panels = {} if gain.reward is None else {"expected reward": gain.reward}
    for name, means in gain.losses.items():
        panels["expected loss" if name == "loss" else f"expected loss: {name}"] = means
    if axes is not None:
        _draw(gain, axes, *next(iter(panels.items())))
        return figure_of(axes)
    figure = new_figure(4.2 * len(panels), 3.6)
    for panel, (label, means) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        _draw(gain, panel, label, means)
    return figure


def _draw(gain: Gain, axes: Axes, label: str, means: PolicyMeans) -> None:
    for place, (policy, color) in enumerate(GAIN_COLORS.items()):
        estimate = getattr(means, policy)
        if estimate.mean is None:
            axes.text(
                place,
                0.5,
                "unknown",
                transform=axes.get_xaxis_transform(),
                ha="center",
                color=color,
            )
            continue
        if np.isfinite(estimate.upper - estimate.lower):
            axes.plot([place] * 2, [estimate.lower, estimate.upper], color=color, linewidth=1.6)
        axes.plot(place, estimate.mean, "o", color=color, markersize=7)
    axes.set_xlim(-0.5, len(GAIN_COLORS) - 0.5)
    axes.set_xticks(range(len(GAIN_COLORS)), list(GAIN_COLORS))
    axes.set_ylabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{format_percent(gain.changed)} of decisions change", loc="left")
