"""A calibration as a matplotlib figure, in the user's own style and without pyplot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.control.calibration import Calibration
from tether.report.chart_marks import beta_ticks
from tether.report.number_format import beta, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, ACCENT, OVER = "#1c2226", "#0b6b5d", "#b3261e"
NEAR = math.log(2)
STYLES = ("-", "--", ":", "-.")


def plot_calibration(found: Calibration, ax: Axes | None = None) -> Figure:
    """The calibrated risk along beta, with alpha and beta, and from half of beta to twice beta.

    Into `ax`, the neighbourhood is a band; in a figure of its own it is drawn large beside the
    whole. Several constraints share one scale: risk over alpha.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'tether[plot]'") from error
    finite = math.isfinite(found.log_beta)
    if ax is not None:
        _draw(found, ax, band=finite)
        inner: Any = ax.figure
        outer: Figure = inner.figure  # the whole, if `ax` is in a part of a figure
        return outer
    if not finite:
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        _draw(found, figure.add_subplot())
        return figure
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    whole, near = figure.subplots(1, 2, width_ratios=[3, 2])
    _draw(found, whole, band=True)
    _draw(found, near, label=False)
    _zoom(found, near)
    return figure


def _draw(found: Calibration, axes: Axes, band: bool = False, label: bool = True) -> None:
    several = len(found.constraints) > 1
    lows, highs = [], [found.log_beta] if math.isfinite(found.log_beta) else []
    for each, style in zip(found.constraints, STYLES * len(found.constraints), strict=False):
        curve = found.curve(each.name)
        unit = each.alpha if several else 1.0
        risk = curve.risk / unit
        binding = each is found.binding
        shape: dict[str, Any] = {"linestyle": style, "linewidth": 2.2 if binding else 1.4}
        name = f"{each.name}, alpha {number(each.alpha)}{', binding' if binding else ''}"
        # The part above alpha lies over the line in its own color, and ends where it meets it.
        x, y = _crossed(curve.log_beta, risk, each.alpha / unit)
        axes.plot(x, np.where(y <= each.alpha / unit, y, np.nan), color=ACCENT, label=name, **shape)
        axes.plot(x, np.where(y >= each.alpha / unit, y, np.nan), color=OVER, **shape)
        if len(curve.log_beta):
            lows.append(float(np.quantile(curve.log_beta, 0.02)))
            highs.append(float(curve.log_beta[-1]))
    level = 1.0 if several else found.alpha
    axes.axhline(level, color=INK, linewidth=1.2)
    low = min(lows + highs, default=-1.0) - 0.4
    high = max(highs, default=1.0) + 0.4
    axes.set_xlim(low, high)
    axes.set_ylim(bottom=0)
    ticks = beta_ticks(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlabel("beta")
    axes.set_ylabel("calibrated risk / alpha" if several else "calibrated risk")
    axes.spines[["top", "right"]].set_visible(False)
    if math.isfinite(found.log_beta):
        if band:
            axes.axvspan(found.log_beta - NEAR, found.log_beta + NEAR, color=ACCENT, alpha=0.1)
        height = found.risk / (found.alpha if several else 1.0)
        axes.plot([found.log_beta] * 2, [0, height], color=ACCENT, linewidth=1.2)
        axes.plot(found.log_beta, height, "o", color=ACCENT, markersize=8)
    if not label:
        return
    where = axes.get_yaxis_transform()
    word = "alpha" if several else f"alpha = {number(found.alpha)}"
    axes.text(0.01, level, word, transform=where, va="bottom", color=INK)
    axes.set_title(_headline(found), loc="left")
    if several:
        axes.legend(frameon=False)


def _zoom(found: Calibration, axes: Axes) -> None:
    """From half of beta to twice beta, and as high and low as the lines go there."""
    several = len(found.constraints) > 1
    seen = [1.0 if several else found.alpha]
    for each in found.constraints:
        curve = found.curve(each.name)
        inside = np.abs(curve.log_beta - found.log_beta) <= NEAR
        seen += list(curve.risk[inside] / (each.alpha if several else 1.0))
    space = 0.08 * (max(seen) - min(seen)) or 0.1 * max(seen)
    axes.set_ylim(min(seen) - space, max(seen) + space)
    axes.set_xlim(found.log_beta - NEAR, found.log_beta + NEAR)
    steps = {"½ β": -NEAR, "β": 0.0, "2 β": NEAR}
    axes.set_xticks([found.log_beta + step for step in steps.values()], list(steps))
    axes.set_title("from half of beta to twice beta", loc="left")


def _crossed(x: Any, y: Any, level: float) -> tuple[Any, Any]:
    """A line with a point wherever it meets a level, so that it can be cut there."""
    gap = y - level
    cuts = np.flatnonzero(gap[1:] * gap[:-1] < 0)
    where = x[cuts] + (x[cuts + 1] - x[cuts]) * gap[cuts] / (gap[cuts] - gap[cuts + 1])
    return np.insert(x, cuts + 1, where), np.insert(y, cuts + 1, level)


def _headline(found: Calibration) -> str:
    if not found.exists:
        return "no beta passes: serve the safe policy"
    if math.isinf(found.log_beta):
        return "beta = ∞: the optimized policy passes whole"
    return f"beta = {beta(found.log_beta)}"
