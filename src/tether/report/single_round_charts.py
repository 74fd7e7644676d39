"""Charts of one round: the calibrated risk, the same near beta, and how weight is distributed.

All rounds are drawn into the same axes, so that they can be compared. The page shows the selected
round and, if there are few, the others faintly behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether._core.types import Floats
from tether.control.calibration import Calibration
from tether.control.curve import Curve
from tether.report.beta_axis import NEAR_BETA, beta_ticks
from tether.report.chart_canvas import (
    ABOVE_ALPHA_COLOR,
    ACCENT_COLOR,
    FONT_SIZE,
    TEXT_COLOR,
    blank_axes,
    label_axes,
    pixel_positions,
)
from tether.report.chart_marks import label_level
from tether.report.html_elements import Markup, element
from tether.report.line_simplification import simplify_line
from tether.report.number_format import format_number
from tether.report.svg_export import figure_to_svg, round_group_id

if TYPE_CHECKING:
    from tether.rounds.history import RoundRecord

NEAR_BETA_TICKS = {"½ ×": -1.0, "0.71 ×": -0.5, "beta": 0.0, "1.41 ×": 0.5, "2 ×": 1.0}
"""Multiples of beta, as shares of `NEAR_BETA` on the log scale."""


@dataclass(frozen=True)
class CalibratedRound:
    """A round with its calibration; the selected one is shown before any script runs."""

    record: RoundRecord
    calibration: Calibration
    curve: Curve
    selected: bool

    @property
    def finite(self) -> bool:
        """Whether beta is neither 0 nor infinite."""
        return math.isfinite(self.calibration.log_beta)

    def group_id(self, kind: str) -> str:
        """Mark what belongs to this round in a drawing."""
        return round_group_id(kind, self.record.number, selected=self.selected)


def calibrated_rounds(records: Sequence[RoundRecord]) -> list[CalibratedRound]:
    """The rounds with a calibration; the last round is selected, if it is among them."""
    return [
        CalibratedRound(
            record, record.calibration, record.calibration.curve(), record is records[-1]
        )
        for record in records
        if record.calibration is not None
    ]


def draw_risk(rounds: Sequence[CalibratedRound], name: str, width: float, height: float) -> Markup:
    """Draw the calibrated risk against beta."""
    figure, axes = blank_axes(width, height, below=44.0)
    alpha = rounds[-1].calibration.alpha
    low, high = beta_range(rounds)
    highest = max(float(shown.curve.risk.max(initial=0.0)) for shown in rounds)
    top = min(max(1.08 * highest, 1.5 * alpha), 1.02 * rounds[-1].calibration.bound)
    axes.set_xlim(low, high)
    axes.set_ylim(0, top)
    ticks = beta_ticks(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.locator_params(axis="y", nbins=5)
    axes.axhspan(alpha, top, facecolor=ABOVE_ALPHA_COLOR, alpha=0.06, linewidth=0)
    axes.axhline(alpha, color=TEXT_COLOR, linewidth=1.5)
    pixels_per_unit = width / (high - low), height / top
    for shown in rounds:
        x, y = simplify_line(shown.curve.log_beta, shown.curve.risk, pixels_per_unit)
        axes.plot(x, y, color=ACCENT_COLOR, linewidth=2.2, gid=shown.group_id("curve"))
        if shown.finite:
            log_beta, risk = shown.calibration.log_beta, shown.calibration.risk
            gid = shown.group_id("mark")
            axes.plot([log_beta, log_beta], [0, risk], color=ACCENT_COLOR, gid=gid)
            axes.plot(log_beta, risk, "o", color=ACCENT_COLOR, markersize=8, gid=gid)
    label_level(axes, alpha, f"alpha {format_number(alpha)}")
    label_axes(axes, "beta", "calibrated risk")
    gradient = _color_change(pixel_positions(axes, [low], [alpha])[0, 1], "curve-gradient")
    return figure_to_svg(figure, name=name, label="", overlay=gradient)


def beta_range(rounds: Sequence[CalibratedRound]) -> tuple[float, float]:
    """The log betas between which the risk changes in any round, including every finite beta."""
    betas = [shown.calibration.log_beta for shown in rounds if shown.finite]
    curves = [shown.curve.log_beta for shown in rounds if len(shown.curve.log_beta)]
    lows = [float(np.quantile(log_beta, 0.02)) for log_beta in curves]
    highs = [float(log_beta[-1]) for log_beta in curves]
    return min(lows + betas, default=-1.0) - 0.4, max(highs + betas, default=1.0) + 0.4


def draw_near(rounds: Sequence[CalibratedRound], name: str, width: float, height: float) -> Markup:
    """Draw the calibrated risk from half of beta to twice beta."""
    figure, axes = blank_axes(width, height, below=44.0)
    alpha = rounds[-1].calibration.alpha
    curves = []
    for shown in rounds:
        if not shown.finite:
            continue
        distance = shown.curve.log_beta - shown.calibration.log_beta
        near = np.flatnonzero(np.abs(distance) <= NEAR_BETA)
        part = slice(max(near[0] - 1, 0), near[-1] + 2)
        curves.append((shown, distance[part], shown.curve.risk[part]))
    risks = np.concatenate([risk for *_, risk in curves] + [np.array([0.8, 1.2]) * alpha])
    low, high = float(risks.min()), float(np.quantile(risks, 0.98))
    space = 0.1 * (high - low)
    axes.set_xlim(-NEAR_BETA, NEAR_BETA)
    axes.set_ylim(max(low - space, 0), high + space)
    axes.set_xticks([NEAR_BETA * step for step in NEAR_BETA_TICKS.values()], list(NEAR_BETA_TICKS))
    axes.axhspan(alpha, high + space, facecolor=ABOVE_ALPHA_COLOR, alpha=0.06, linewidth=0)
    axes.axhline(alpha, color=TEXT_COLOR, linewidth=1.5)
    axes.axvline(0, color=ACCENT_COLOR, linewidth=1)
    for shown, distance, risk in curves:
        x, y = simplify_line(distance, risk, (width / (2 * NEAR_BETA), height / (high - low)))
        axes.plot(x, y, color=ACCENT_COLOR, linewidth=2.2, gid=shown.group_id("curve"))
        gid = shown.group_id("mark")
        axes.plot(0, shown.calibration.risk, "o", color=ACCENT_COLOR, markersize=8, gid=gid)
    label_level(axes, alpha, "alpha")
    label_axes(axes, "multiple of beta", "calibrated risk")
    gradient = _color_change(pixel_positions(axes, [0], [alpha])[0, 1], "near-gradient")
    return figure_to_svg(figure, name=name, label="", overlay=gradient)


def draw_weights(
    rounds: Sequence[CalibratedRound], name: str, width: float, height: float
) -> Markup:
    """Draw the cumulative share of the weight, lightest rows first, compared with equal weights."""
    figure, axes = blank_axes(width, height, below=44.0)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    shares = [0, 0.25, 0.5, 0.75, 1]
    axes.set_xticks(shares, ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_yticks(shares, ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.plot([0, 1], [0, 1], color=TEXT_COLOR, linewidth=1.2, dashes=(4, 3))
    axes.text(
        0.46, 0.5, "equal weights ", ha="right", va="bottom", color=TEXT_COLOR, fontsize=FONT_SIZE
    )
    for shown in rounds:
        cumulative = cumulative_weight(shown.calibration.relative_weights)
        if cumulative is None:
            continue
        x, y = simplify_line(np.linspace(0, 1, len(cumulative)), cumulative, (width, height))
        axes.plot(x, y, color=ACCENT_COLOR, linewidth=2.2, gid=shown.group_id("curve"))
    label_axes(axes, "rows, lightest first", "share of the weight")
    return figure_to_svg(figure, name=name, label="")


def cumulative_weight(relative_weights: Sequence[float]) -> Floats | None:
    """The share of the weight below each quantile; None if no row has weight."""
    weights = np.asarray(relative_weights)
    below = np.append(0.0, np.cumsum((weights[1:] + weights[:-1]) / 2))
    return np.asarray(below / below[-1]) if below[-1] > 0 else None


def _color_change(height: float, name: str) -> Markup:
    """A gradient whose color changes where a line crosses alpha, at `height` pixels."""
    stops = [("above-alpha", 0), ("above-alpha", 1), ("accent", 1)]
    return element(
        "linearGradient",
        [element("stop", class_=f"stop-{role}", offset=offset) for role, offset in stops],
        id=name,
        gradientUnits="userSpaceOnUse",
        x1=0,
        x2=0,
        y1=0,
        y2=f"{height:.1f}",
    )
