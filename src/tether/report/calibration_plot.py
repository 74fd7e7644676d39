"""A calibration as a matplotlib figure, in the user's own style and without pyplot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.control.calibration import Calibration
from tether.report.beta_axis import NEAR_BETA, beta_ticks, share_ticks
from tether.report.number_format import format_beta, format_number
from tether.report.plot_frame import (
    LINE_STYLES,
    PASSING_COLOR,
    PLOT_ABOVE_ALPHA_COLOR,
    draw_level,
    figure_of,
    finish_axes,
    ink,
    new_figure,
    one_line,
    start_at_zero,
    with_crossings,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOM_FOR_A_LABEL = 1.05
"""How much higher than the promise an axis is, so that its label is below the title."""


LARGEST_SHARE_LOG_ODDS = math.log(999)
"""Of a mix, shares of the optimized policy from 0.1 % to 99.9 % are drawn, and beta itself."""


def plot_calibration(calibration: Calibration, axes: Axes | None = None) -> Figure:
    """Plot the calibrated risk against beta, with the promise, alpha and the safe policy's loss.

    In `axes` of the user, this neighborhood of beta is a shaded band; in a figure of its own it is
    drawn enlarged in a second panel. Several constraints share one scale: risk divided by alpha.
    """
    finite = math.isfinite(calibration.log_beta)
    if axes is not None:
        draw_calibration(calibration, axes, shade_near=finite)
        return figure_of(axes)
    if not finite:
        figure = new_figure()
        draw_calibration(calibration, figure.add_subplot())
        return figure
    figure = new_figure(10.0, 4.0)
    overview, near = figure.subplots(1, 2, width_ratios=[3, 2])
    draw_calibration(calibration, overview, shade_near=True)
    draw_calibration(calibration, near, annotate=False)
    _zoom(calibration, near)
    return figure


def draw_calibration(
    calibration: Calibration, axes: Axes, shade_near: bool = False, annotate: bool = True
) -> None:
    """Draw the risk along beta into axes, with alpha and beta."""
    several = len(calibration.constraints) > 1
    finite = math.isfinite(calibration.log_beta)
    lows, highs = [], [calibration.log_beta] if finite else []
    styles = LINE_STYLES * len(calibration.constraints)
    for constraint, line_style in zip(calibration.constraints, styles, strict=False):
        curve = calibration.curve(constraint.name)
        unit = constraint.alpha if several else 1.0
        level = constraint.alpha / unit
        binding = constraint is calibration.binding
        style: dict[str, Any] = {"linestyle": line_style, "linewidth": 2.2 if binding else 1.4}
        alpha = format_number(constraint.alpha)
        stops = ", limits beta" if binding and calibration.log_beta < math.inf else ""
        label = f"{one_line(constraint.name)}, alpha {alpha}{stops}"
        # Three lines: up to beta, above alpha, and what is below alpha without being allowed.
        x, y = with_crossings(curve.log_beta, curve.risk / unit, level)
        allowed, above = x <= calibration.log_beta, y >= level
        passing = PASSING_COLOR if calibration.exists else ink()
        axes.plot(x, np.where(allowed, y, np.nan), color=passing, label=label, **style)
        beyond = x >= calibration.log_beta
        axes.plot(x, np.where(above & beyond, y, np.nan), color=PLOT_ABOVE_ALPHA_COLOR, **style)
        axes.plot(x, np.where((y <= level) & beyond, y, np.nan), color=ink(), **style)
        if len(curve.log_beta):
            lows.append(float(np.quantile(curve.log_beta, 0.02)))
            highs.append(float(curve.log_beta[-1]))
    level = 1.0 if several else calibration.alpha
    low = min(lows + highs, default=-1.0) - 0.4
    high = max(highs, default=1.0) + 0.4
    axes.set_xlim(low, high)
    promised = calibration.promise if annotate and not several and calibration.useful else level
    start_at_zero(axes, ROOM_FOR_A_LABEL * promised)
    where = "beta (left: safe policy, right: optimized policy)" if annotate else "beta"
    if calibration.optimized_share is not None and annotate:
        low, high = max(low, -LARGEST_SHARE_LOG_ODDS), min(high, LARGEST_SHARE_LOG_ODDS)
        low, high = min(low, *highs[:finite], 0.0), max(high, *highs[:finite], 0.0)
        axes.set_xlim(low - 0.4, high + 0.4)
        ticks = share_ticks(low, high)
        where = "share of the decisions made by the optimized policy: beta / (1 + beta)"
    else:
        ticks = beta_ticks(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    finish_axes(axes, where, "calibrated risk / alpha" if several else "calibrated risk")
    if finite:
        log_beta = calibration.log_beta
        if shade_near:
            limits = log_beta - NEAR_BETA, log_beta + NEAR_BETA
            axes.axvspan(*limits, color=PASSING_COLOR, alpha=0.1)
        risk = calibration.risk / (calibration.alpha if several else 1.0)
        axes.plot([log_beta] * 2, [0, risk], color=PASSING_COLOR, linewidth=1.2)
        axes.plot(log_beta, risk, "o", color=PASSING_COLOR, markersize=8)
    if not annotate or several:
        axes.axhline(level, color=ink(), linewidth=1.2, label="alpha")
    else:
        _draw_levels(calibration, axes)
    if annotate:
        axes.set_title(_title(calibration), loc="left")
    if annotate and several:
        axes.legend(frameon=False)


def _draw_levels(calibration: Calibration, axes: Axes) -> None:
    """Draw the promise above alpha, and today's loss with its label at the other end."""
    alpha = f"alpha = {format_number(calibration.alpha)}"
    if not calibration.exists and calibration.asked_promise is not None:
        asked = f"promise asked for: {format_number(calibration.alpha)}"
        draw_level(axes, calibration.alpha, asked)
        _say_what_is_missing(calibration, axes)
    elif not calibration.useful:
        draw_level(axes, calibration.alpha, alpha)
    else:
        promise = f"promise{_sure(calibration)}: at most {format_number(calibration.promise)}"
        is_alpha = calibration.confidence is not None
        draw_level(axes, calibration.promise, promise, above=True, line_style="--")
        if not is_alpha:
            draw_level(axes, calibration.alpha, alpha, above=False)
    if calibration.safe_losses is not None:
        today = calibration.safe_losses[calibration.binding.name]
        text = f"safe policy today: {format_number(today)}"
        draw_level(axes, today, text, above=False, at_right=True, line_style=":")


def _say_what_is_missing(calibration: Calibration, axes: Axes) -> None:
    """Say why a risk below the line is not enough: a promise is more than alpha."""
    if calibration.nearest is None:
        return
    terms = calibration.nearest.terms[calibration.binding.name]
    added = {"stability": terms.stability, "safe excess": terms.safe_excess}
    added |= {"unforeseen": terms.unforeseen} if terms.unforeseen else {}
    parts = " + ".join(f"{format_number(value)} {name}" for name, value in added.items())
    text = (
        f"A risk below the line is not enough: the smallest promise found is\n"
        f"{format_number(terms.alpha)} alpha + {parts} = {format_number(terms.total)}"
    )
    axes.text(0.01, 0.02, text, transform=axes.transAxes, ha="left", va="bottom", color=ink())


def _sure(calibration: Calibration) -> str:
    """The confidence, where there is one."""
    sure = calibration.confidence
    return "" if sure is None else f" with confidence {sure:g}"


def _zoom(calibration: Calibration, axes: Axes) -> None:
    """Limit the axes to half of beta to twice beta, and to the risks in between."""
    several = len(calibration.constraints) > 1
    risks = [1.0 if several else calibration.alpha]
    for constraint in calibration.constraints:
        curve = calibration.curve(constraint.name)
        near = np.abs(curve.log_beta - calibration.log_beta) <= NEAR_BETA
        risks += list(curve.risk[near] / (constraint.alpha if several else 1.0))
    space = 0.08 * (max(risks) - min(risks)) or 0.1 * max(risks)
    axes.set_ylim(min(risks) - space, max(risks) + space)
    axes.set_xlim(calibration.log_beta - NEAR_BETA, calibration.log_beta + NEAR_BETA)
    ticks = {"½ β": -NEAR_BETA, "β": 0.0, "2 β": NEAR_BETA}
    axes.set_xticks([calibration.log_beta + tick for tick in ticks.values()], list(ticks))
    axes.set_title("from half of beta to twice beta", loc="left")


def _title(calibration: Calibration) -> str:
    if not calibration.exists:
        return "no beta passes: use the safe policy"
    if math.isinf(calibration.log_beta):
        return "beta = ∞: the optimized policy passes without restriction"
    title = f"beta = {format_beta(calibration.log_beta)}"
    if calibration.optimized_share is not None:
        title += f": {calibration.optimized_share:.1%} by the optimized policy"
    return title
