"""Results as matplotlib figures, in the user's own style and without pyplot."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.report.beta_axis import beta_scale, beta_ticks, changing_range
from tether.report.number_format import format_beta, format_number, format_percent
from tether.report.plot_frame import (
    ENTRY_COLORS,
    LINE_STYLES,
    PASSING_COLOR,
    PLOT_ABOVE_ALPHA_COLOR,
    ROOM_ABOVE,
    draw_level,
    figure_of,
    finish_axes,
    ink,
    legend_above,
    new_figure,
    one_line,
    start_at_zero,
    with_crossings,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tether.control.calibration import Calibration
    from tether.control.gains import Gain, PolicyMeans
    from tether.thresholds.selection import Selection

POLICY_COLORS = {"safe": "#1c2226", "tethered": PASSING_COLOR, "optimized": PLOT_ABOVE_ALPHA_COLOR}


def plot_calibration(found: Calibration, axes: Axes | None = None) -> Figure:
    """Plot the calibrated risk against beta, with what was asked for and the safe policy's loss.

    Several losses share one scale: risk divided by what was asked for.
    """
    if axes is None:
        axes = new_figure().add_subplot()
    draw_calibration(found, axes)
    return figure_of(axes)


def draw_calibration(found: Calibration, axes: Axes) -> None:
    """Draw the risk along beta into axes, with what was asked for and beta."""
    several = len(found.losses) > 1
    finite = math.isfinite(found.log_beta)
    ends = [found.log_beta] if finite else []
    for loss, line_style in zip(found.losses.values(), LINE_STYLES * 9, strict=False):
        unit = loss.alpha if several else 1.0
        level = loss.alpha / unit
        style: dict[str, Any] = {"linestyle": line_style, "linewidth": 1.8}
        stops = ", limits beta" if several and loss is found.binding else ""
        x, y = with_crossings(loss.log_betas, loss.risks / unit, level)
        passing = PASSING_COLOR if found.exists else ink()
        label = f"{one_line(loss.name)}, at most {format_number(loss.alpha)}{stops}"
        axes.plot(x, np.where(x <= found.log_beta, y, np.nan), color=passing, label=label, **style)
        beyond = x >= found.log_beta
        above = np.where(beyond & (y >= level), y, np.nan)
        axes.plot(x, above, color=PLOT_ABOVE_ALPHA_COLOR, **style)
        axes.plot(x, np.where(beyond & (y <= level), y, np.nan), color=ink(), **style)
        ends += changing_range(loss.log_betas, loss.risks)
    low, high = min(ends) - 0.4, max(ends) + 0.4
    axes.set_xlim(low, high)
    ticks = beta_ticks(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    binding = found.binding
    start_at_zero(axes, 1.0 if several else 1.1 * max(binding.alpha, binding.safe_mean))
    where = "beta (left: safe policy, right: optimized policy)"
    finish_axes(axes, where, "calibrated risk / asked for" if several else "calibrated risk")
    if finite:
        risk = binding.risk / (binding.alpha if several else 1.0)
        axes.plot([found.log_beta] * 2, [0, risk], color=PASSING_COLOR, linewidth=1.2)
        axes.plot(found.log_beta, risk, "o", color=PASSING_COLOR, markersize=8)
    if several:
        axes.axhline(1.0, color=ink(), linewidth=1.2)
        axes.legend(frameon=False)
    else:
        asked = "promise" if found.rule == "promise" else "alpha"
        draw_level(axes, binding.alpha, f"{asked} = {format_number(binding.alpha)}")
        today = f"safe policy: {format_number(binding.safe_mean)}"
        draw_level(axes, binding.safe_mean, today, at_right=True, above=False, line_style=":")
    title = f"beta = {format_beta(found.log_beta)}"
    if not found.exists:
        title = "no beta passes: use the safe policy"
    elif found.useful:
        title += f", expected loss at most {format_number(found.promise)}"
    axes.set_title(title, loc="left")


def plot_selection(selection: Selection, axes: Axes | None = None) -> Figure:
    """Plot the risk along the thresholds with the chosen one, and the share kept below.

    In `axes` of the user, only the risk is drawn. Several losses or groups are one line each; where
    their alphas differ, they share one scale: risk over alpha.
    """
    lines = selection.groups or {part.loss: part for part in selection.by_loss or (selection,)}
    title = f"{selection.method}: threshold {format_number(selection.threshold)}"
    if selection.groups or not selection.exists:
        one_each = "one threshold per group" if selection.groups else "no threshold passes"
        title = f"{selection.method}: {one_each}"
    elif selection.kept is not None and selection.kept.total:
        title += f", {100 * selection.kept.share:.3g} % kept"
    if axes is None:
        return plot_selections(lines, title)
    _draw_risks(lines, axes)
    axes.set_title(title, loc="left")
    return figure_of(axes)


def plot_selections(lines: Mapping[str, Selection], title: str) -> Figure:
    """Plot the risk of several selections along the thresholds, and the share that is kept."""
    if not any(len(part.curve_kept) for part in lines.values()):
        figure = new_figure()
        axes = figure.add_subplot()
    else:
        figure = new_figure(6.4, 5.4)
        axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        for part, color in zip(lines.values(), ENTRY_COLORS * len(lines), strict=False):
            if part.kept is not None and len(part.curve_kept):
                _draw_threshold(below, part, part.curve_kept, part.kept.share, color, "")
        below.set_ylim(0, 1.05)
        unit = next(part.kept.unit for part in lines.values() if part.kept is not None)
        finish_axes(below, "threshold", f"share of {unit} kept")
    _draw_risks(lines, axes)
    axes.set_title(title, loc="left")
    return figure


def _draw_risks(lines: Mapping[str, Selection], axes: Axes) -> None:
    alphas = {part.alpha for part in lines.values()}
    for (name, part), color in zip(lines.items(), ENTRY_COLORS * len(lines), strict=False):
        unit = part.alpha if len(alphas) > 1 else 1.0
        _draw_threshold(axes, part, part.curve_risks / unit, part.risk / unit, color, name)
    level = 1.0 if len(alphas) > 1 else alphas.pop()
    start_at_zero(axes, level)
    finish_axes(axes, "threshold", "risk / alpha" if alphas else "risk")
    if len(lines) > 1:
        axes.axhline(level, color=ink(), linewidth=1.2, label="alpha")
        axes.legend(frameon=False)
    else:
        draw_level(axes, level, f"{next(iter(lines.values())).rule} {format_number(level)}")


def _draw_threshold(
    axes: Axes, part: Selection, curve: Any, height: float, color: str, name: str
) -> None:
    """Draw a curve along the thresholds, and where the chosen one is."""
    finite = np.isfinite(part.curve_thresholds)  # +inf, which keeps nothing, has no place
    axes.plot(part.curve_thresholds[finite], curve[finite], color=color, label=one_line(name))
    if part.exists and math.isfinite(part.threshold):
        axes.plot([part.threshold] * 2, [0, height], color=color, linewidth=1.2)
        axes.plot(part.threshold, height, "o", color=color, markersize=8)


def plot_gain(gain: Gain, axes: Axes | None = None) -> Figure:
    """Plot each policy's mean with its interval, one panel per quantity.

    A policy whose mean is unknown has no point. In `axes` of the user, only the rewards are drawn,
    or the first loss if there are none.
    """
    panels = {} if gain.reward is None else {"expected reward": gain.reward}
    for name, means in gain.losses.items():
        panels["expected loss" if name == "loss" else f"expected loss: {name}"] = means
    if axes is not None:
        _draw_means(gain, axes, *next(iter(panels.items())))
        return figure_of(axes)
    figure = new_figure(4.2 * len(panels), 3.6)
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, (label, means) in zip(every, panels.items(), strict=True):
        _draw_means(gain, panel, label, means)
    return figure


def _draw_means(gain: Gain, axes: Axes, label: str, means: PolicyMeans) -> None:
    across = axes.get_xaxis_transform()
    for place, (policy, color) in enumerate(POLICY_COLORS.items()):
        estimate = getattr(means, policy)
        if estimate.mean is None:
            axes.text(place, 0.5, "unknown", transform=across, ha="center", color=color)
            continue
        axes.plot([place] * 2, [estimate.lower, estimate.upper], color=color, linewidth=1.6)
        axes.plot(place, estimate.mean, "o", color=color, markersize=7)
    axes.set_xlim(-0.5, len(POLICY_COLORS) - 0.5)
    axes.set_xticks(range(len(POLICY_COLORS)), list(POLICY_COLORS))
    finish_axes(axes, "", label, f"{format_percent(gain.changed)} of decisions change")


def plot_calibrations(found: Mapping[str, Calibration]) -> Figure:
    """Plot what each result promises beside what was asked for, and its reward, or else beta."""
    results, places = list(found.values()), np.arange(len(found))
    figure = new_figure(10.0, 1.6 + 0.34 * len(found))
    left, right = figure.subplots(1, 2, sharey=True)
    useful = np.array([each.useful for each in results])
    promises = np.array([each.promise for each in results])
    asked = np.array([each.binding.alpha for each in results])
    left.hlines(places, np.minimum(asked, promises), promises, color=PASSING_COLOR, alpha=0.4)
    left.plot(asked, places, "|", color=ink(), markersize=14, label="asked for")
    for where, face, label in ((useful, PASSING_COLOR, ""), (~useful, "none", ", not useful")):
        if where.any():
            style = {"color": PASSING_COLOR, "markerfacecolor": face, "label": f"promise{label}"}
            left.plot(promises[where], places[where], "o", **style)
    left.set_xlim(0, ROOM_ABOVE * max(asked.max(), promises.max()))
    finish_axes(left, "expected loss", "")
    legend_above(left)
    rewards = [each.gain.reward for each in results if each.gain is not None]
    means = [each.tethered.mean for each in rewards if each is not None]
    if len(means) == len(results) and None not in means:
        for place, each in enumerate(rewards):
            assert each is not None
            right.plot([each.tethered.lower, each.tethered.upper], [place] * 2, color=PASSING_COLOR)
        right.plot([float(each or 0.0) for each in means], places, "o", color=PASSING_COLOR)
        finish_axes(right, "expected reward", "")
    else:
        scale = beta_scale([each.log_beta for each in results])
        right.plot(scale.heights, places, "o", color=PASSING_COLOR)
        right.set_xticks(list(scale.ticks), list(scale.ticks.values()))
        right.set_xlim(*scale.limits)
        several = len({each.family for each in results}) > 1
        finish_axes(right, "beta (not comparable: families differ)" if several else "beta", "")
    left.set_yticks(places.tolist(), [one_line(name) for name in found])
    left.set_ylim(len(found) - 0.4, -0.6)  # the first at the top
    return figure
