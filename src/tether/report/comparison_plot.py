"""Several results in one matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tether.control.calibration import Calibration
from tether.control.gains import WeightedMean
from tether.report.beta_axis import beta_scale
from tether.report.plot_frame import (
    PASSING_COLOR,
    ROOM_ABOVE,
    finish_axes,
    ink,
    legend_above,
    new_figure,
    one_line,
)
from tether.report.selection_plot import plot_selections
from tether.thresholds.selection import Selection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TICKS = 5
"""How many intervals between ticks there are at most, so that their labels do not touch."""


def plot_comparison(results: Mapping[str, Calibration | Selection]) -> Figure:
    """Plot several results, all of one kind, by name."""
    selections = {name: each for name, each in results.items() if isinstance(each, Selection)}
    if selections:
        return plot_selections(selections, f"{len(selections)} selections")
    calibrations = {name: each for name, each in results.items() if isinstance(each, Calibration)}
    figure = new_figure(10.0, 1.6 + 0.34 * len(calibrations))
    left, right = figure.subplots(1, 2, sharey=True)
    _draw_promises(calibrations, left)
    _draw_reach(calibrations, right)
    left.set_yticks(range(len(calibrations)), [one_line(name) for name in calibrations])
    left.set_ylim(len(calibrations) - 0.4, -0.6)  # the first at the top
    return figure


def _draw_promises(found: Mapping[str, Calibration], axes: Axes) -> None:
    """Draw what each result promises, and its alpha; a ring is a promise of no use."""
    results = list(found.values())
    places = np.arange(len(results))
    useful = np.array([each.useful for each in results])
    promises = np.array([each.promise for each in results])
    alphas = np.array([each.alpha for each in results])
    axes.hlines(places, np.minimum(alphas, promises), promises, color=PASSING_COLOR, alpha=0.4)
    axes.plot(alphas, places, "|", color=ink(), markersize=14, label="alpha")
    for where, face, label in (
        (useful, PASSING_COLOR, "promise"),
        (~useful, "none", "promise, not useful"),
    ):
        if where.any():
            axes.plot(
                promises[where],
                places[where],
                "o",
                color=PASSING_COLOR,
                markerfacecolor=face,
                label=label,
            )
    axes.set_xlim(0, ROOM_ABOVE * max(alphas.max(), promises.max()))
    axes.locator_params(axis="x", nbins=MOST_TICKS)
    finish_axes(axes, "expected loss", "")
    legend_above(axes)


def _draw_reach(found: Mapping[str, Calibration], axes: Axes) -> None:
    """Draw the expected reward with its interval where all results have it, otherwise beta."""
    rewards = [_reward(each) for each in found.values()]
    places = np.arange(len(found))
    known = [each for each in rewards if each is not None and each.mean is not None]
    if len(known) == len(rewards):
        ends = np.array([[each.lower, each.upper] for each in known], dtype=np.float64)
        finite = np.isfinite(ends).all(axis=1)
        axes.hlines(places[finite], *ends[finite].T, color=PASSING_COLOR, alpha=0.5, linewidth=1.6)
        means = np.array([each.mean for each in known], dtype=np.float64)
        axes.plot(means, places, "o", color=PASSING_COLOR)
        axes.locator_params(axis="x", nbins=MOST_TICKS)
        finish_axes(axes, "expected reward", "")
        return
    scale = beta_scale([each.log_beta for each in found.values()])
    axes.plot(scale.heights, places, "o", color=PASSING_COLOR)
    axes.set_xticks(list(scale.ticks), list(scale.ticks.values()))
    axes.set_xlim(*scale.limits)
    several = len({each.family for each in found.values()}) > 1
    finish_axes(axes, "beta (not comparable: families differ)" if several else "beta", "")


def _reward(calibration: Calibration) -> WeightedMean | None:
    gain = calibration.gain
    return None if gain is None or gain.reward is None else gain.reward.tethered
