"""Results as matplotlib figures, in the user's own style and without pyplot.

Names of curves and points stand in legends above the axes, where they cover nothing.
"""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from tether._core.arrays import Floats
from tether._core.words import visible
from tether.view.numbers import beta_ticks, format_beta, format_number, format_share

try:
    from matplotlib import rcParams
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError("plots need matplotlib: pip install 'tether[plot]'") from error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tether.control.calibration import Calibration
    from tether.control.gains import Gain
    from tether.thresholds.selection import Selection

GREEN, RED, BLUE = "#0b8a76", "#c8372d", "#3f6fb5"
COLORS = (GREEN, "#b7791f", BLUE, "#9254a8", "#6b7280", "#a8553a")
"""The colors of several results in one plot; each is readable on white and on black."""
POLICIES = {"safe": (BLUE, "s", 10), "tethered": (GREEN, "o", 7), "optimized": (RED, "^", 8)}
"""The color, the marker and its size of each policy; one that equals another stays visible."""
SMALL_CHANGE = 1e-3
"""Where a risk changes by less than this share of its range, its curve is not shown."""


# ---- calibrations -------------------------------------------------------------------------------


def plot_calibration(found: Calibration) -> Figure:
    """Plot gain against loss, and the risk along beta."""
    panels, alpha = 1 if found.gain is None else 2, found.binding.alpha
    figure = _new_figure(5.2 * panels, 4.4)
    *first, last = figure.subplots(1, panels, squeeze=False)[0]
    if found.gain is not None:
        first[0].axvline(alpha, label=_asked(found.rule, alpha), **_asked_style())
        _draw_tradeoff(found.gain, found.binding.name, first[0])
    _draw_risk(found, last)
    return figure


def _draw_tradeoff(gain: Gain, name: str, axes: Axes) -> None:
    """The reward of the three policies, or the share that changes, against one expected loss."""
    changed = {"safe": 0.0, "tethered": gain.changed}
    for policy, (color, marker, size) in POLICIES.items():
        style: dict[str, Any] = {"color": color, "linewidth": 1.6}
        loss = getattr(gain.losses[name], policy)
        reward = None if gain.reward is None else getattr(gain.reward, policy)
        height: Any = changed.get(policy) if reward is None else reward.mean
        is_known = loss.mean is not None and height is not None
        at: Any = ([loss.mean], [height]) if is_known else ([], [])
        label = policy if is_known else f"{policy}: unknown"
        axes.plot(*at, marker, label=label, markersize=size, **style)
        if is_known:
            axes.plot([loss.lower, loss.upper], [height] * 2, **style)
        if is_known and reward is not None:
            axes.plot([loss.mean] * 2, [reward.lower, reward.upper], **style)
    axes.set_xlim(0, 1.08 * max(axes.dataLim.x1, 1e-9))
    loss_label = "expected loss" if name == "loss" else f"expected loss: {_one_line(name)}"
    reward_label = "share of decisions that change" if gain.reward is None else "expected reward"
    _finish(axes, loss_label, reward_label)
    _legend_above(axes)


def _draw_risk(found: Calibration, axes: Axes) -> None:
    """The calibrated risk along beta; several losses share one scale: risk over what was asked."""
    several, binding = len(found.losses) > 1, found.binding
    ends = [found.log_beta] if math.isfinite(found.log_beta) else []
    for (name, loss), color in zip(found.losses.items(), COLORS * 9, strict=False):
        risks = loss.risks / (loss.alpha if several else 1.0)
        ends += _changing_range(loss.log_betas, risks)
        limits = ", limits beta" if loss is binding else ""
        label = f"{_one_line(name)}, {_asked(found.rule, loss.alpha)}{limits}"
        axes.plot(loss.log_betas, risks, ":", color=color, linewidth=1.8)
        served = np.where(loss.log_betas <= found.log_beta, risks, np.nan)
        label = label if several else "calibrated risk"
        axes.plot(loss.log_betas, served, color=color, linewidth=2.2, label=label)
    low, high = min(ends) - 0.4, max(ends) + 0.4
    ticks = {place: text for place, text in beta_ticks(low, high).items() if low <= place <= high}
    axes.set_xlim(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    unit = binding.alpha if several else 1.0
    label = "asked for" if several else _asked(found.rule, binding.alpha)
    axes.axhline(binding.alpha / unit, label=label, **_asked_style())
    if not several:
        label = f"safe policy {format_number(binding.safe_mean)}"
        axes.axhline(binding.safe_mean, color=BLUE, linewidth=1.2, label=label)
    _start_at_zero(axes, binding.alpha / unit)
    if math.isfinite(found.log_beta):
        axes.plot([found.log_beta] * 2, [0, binding.risk / unit], color=GREEN, linewidth=1.2)
        label = f"beta {format_beta(found.log_beta)}"
        axes.plot(found.log_beta, binding.risk / unit, "o", color=GREEN, markersize=8, label=label)
    where = "beta (left: safe policy, right: optimized policy)"
    _finish(axes, where, "calibrated risk / asked for" if several else "calibrated risk")
    _legend_above(axes, "" if found.exists else "no beta passes: use the safe policy")


def _changing_range(log_betas: Floats, risks: Floats) -> tuple[float, float]:
    """The ends of the part of a curve in which the risk changes."""
    finite = np.isfinite(log_betas)
    x, moves = log_betas[finite], np.abs(np.diff(risks[finite]))
    inside = np.flatnonzero(moves > SMALL_CHANGE * moves.sum())
    return (float(x[inside[0]]), float(x[inside[-1] + 1])) if len(inside) else (-1.0, 1.0)


# ---- thresholds ---------------------------------------------------------------------------------


def plot_selection(selection: Selection) -> Figure:
    """Plot the risk along the thresholds, of each group or loss, and the share that is kept."""
    lines = selection.groups or {part.loss: part for part in selection.by_loss or (selection,)}
    title = f"{selection.method}: threshold {format_number(selection.threshold)}"
    if selection.groups or not selection.exists:
        one_each = "one threshold per group" if selection.groups else "no threshold passes"
        title = f"{selection.method}: {one_each}"
    elif selection.kept is not None and selection.kept.total:
        title += f", {format_share(selection.kept.share)} kept"
    known = {name: each.kept for name, each in lines.items() if len(each.curve_kept)}
    kept = {name: each for name, each in known.items() if each is not None}
    figure, rows = _new_figure(6.4, 5.6 if kept else 4.2), 2 if kept else 1
    layout: dict[str, Any] = {"sharex": True, "squeeze": False, "height_ratios": [3, 2][:rows]}
    above, *below = figure.subplots(rows, 1, **layout)[:, 0]
    alphas = {part.alpha for part in lines.values()}
    several, level = len(alphas) > 1, 1.0 if len(alphas) > 1 else min(alphas)
    colors = dict(zip(lines, COLORS * 9, strict=False))
    for name, part in lines.items():  # on one scale where what was asked differs: risk over that
        unit, color = part.alpha if several else 1.0, colors[name]
        _draw_threshold(above, part, part.curve_risks / unit, part.risk / unit, color, name)
    label = "asked for" if several else _asked(selection.rule, level)
    above.axhline(level, label=label, **_asked_style())
    _start_at_zero(above, level)
    _finish(above, "" if kept else "threshold", "risk / asked for" if several else "risk")
    _legend_above(above, title)
    for axes in below:
        for name, each in kept.items():
            part = lines[name]
            _draw_threshold(axes, part, part.curve_kept, each.share, colors[name], "")
            _finish(axes, "threshold", f"share of {each.unit} kept")
        axes.set_ylim(0, 1.05)
    return figure


def _draw_threshold(
    axes: Axes, part: Selection, curve: Floats, height: float, color: str, name: str
) -> None:
    """Draw a curve along the thresholds, and where the chosen one is."""
    finite = np.isfinite(part.curve_thresholds)  # +inf, which keeps nothing, has no place
    axes.plot(part.curve_thresholds[finite], curve[finite], color=color, label=_one_line(name))
    if part.exists and math.isfinite(part.threshold):
        axes.plot([part.threshold] * 2, [0, height], color=color, linewidth=1.2)
        axes.plot(part.threshold, height, "o", color=color, markersize=8)


# ---- what all figures share ---------------------------------------------------------------------


class NotebookFigure(Figure):
    """A figure that a notebook shows by itself, although nothing here imports pyplot."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, twice as fine as it is shown, and how large it is to be shown."""
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=2 * self.dpi)
        width, height = (round(side * self.dpi) for side in self.get_size_inches())
        return picture.getvalue(), {"width": width, "height": height}


def _new_figure(width: float, height: float) -> Figure:
    """A figure whose margins fit its labels."""
    return NotebookFigure(figsize=(width, height), layout="constrained")


def _asked(rule: str, value: float) -> str:
    """What was asked for, in words."""
    return f"{'promise' if rule == 'promise' else 'alpha'} {format_number(value)}"


def _asked_style() -> dict[str, Any]:
    return {"color": rcParams["text.color"], "linewidth": 1.2, "linestyle": "--"}


def _finish(axes: Axes, x_label: str, y_label: str) -> None:
    """Label the axes, without a frame at the top and at the right."""
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)


def _legend_above(axes: Axes, title: str = "") -> None:
    """Put the legend above the axes, with a title, where it covers nothing."""
    anchored: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderpad": 0}
    legend = axes.legend(title=title, frameon=False, ncols=2, alignment="left", **anchored)
    legend.get_title().set_fontsize("large")


def _start_at_zero(axes: Axes, *heights: float) -> None:
    """Let the y axis begin at 0 and end above everything drawn and above these heights."""
    known = [each for each in (*axes.dataLim.intervaly, *heights) if np.isfinite(each)]
    axes.set_ylim(0, 1.08 * max(known, default=1.0) or 1.0)


def _one_line(text: str, length: int = 40) -> str:
    """A name that fits into a legend or beside an axis; `$` and `_` stand for themselves."""
    text = visible(" ".join(text.split()))
    text = f" {text}" if text.startswith("_") else text  # else a legend leaves it out
    return (text if len(text) <= length else f"{text[: length - 1]}…").replace("$", r"\$")
