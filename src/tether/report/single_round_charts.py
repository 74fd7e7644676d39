"""The chart of one round: the calibrated risk against beta.

All rounds are drawn into the same axes, so that they can be compared. The page shows the selected
round and, if there are few, the others faintly behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tether.control.calibration import Calibration, LossResult
from tether.report.beta_axis import beta_ticks, changing_range
from tether.report.chart_canvas import (
    ABOVE_ALPHA_COLOR,
    ACCENT_COLOR,
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


@dataclass(frozen=True)
class CalibratedRound:
    """A round with its calibration; the selected one is shown before any script runs.

    The curve is that of the loss that limits beta.
    """

    record: RoundRecord
    calibration: Calibration
    selected: bool

    @property
    def loss(self) -> LossResult:
        """The loss that limits beta."""
        return self.calibration.binding

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
        CalibratedRound(record, record.calibration, record is records[-1])
        for record in records
        if record.calibration is not None
    ]


def draw_risk(rounds: Sequence[CalibratedRound], name: str, width: float, height: float) -> Markup:
    """Draw the calibrated risk against beta."""
    figure, axes = blank_axes(width, height, below=44.0)
    alpha = rounds[-1].loss.alpha
    low, high = beta_range(rounds)
    highest = max(float(shown.loss.risks.max(initial=0.0)) for shown in rounds)
    top = min(max(1.08 * highest, 1.5 * alpha), 1.02 * rounds[-1].loss.bound)
    axes.set_xlim(low, high)
    axes.set_ylim(0, top)
    ticks = beta_ticks(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.locator_params(axis="y", nbins=5)
    axes.axhspan(alpha, top, facecolor=ABOVE_ALPHA_COLOR, alpha=0.06, linewidth=0)
    axes.axhline(alpha, color=TEXT_COLOR, linewidth=1.5)
    pixels_per_unit = width / (high - low), height / top
    for shown in rounds:
        x, y = simplify_line(shown.loss.log_betas, shown.loss.risks, pixels_per_unit)
        axes.plot(x, y, color=ACCENT_COLOR, linewidth=2.2, gid=shown.group_id("curve"))
        if shown.finite:
            log_beta, risk = shown.calibration.log_beta, shown.loss.risk
            gid = shown.group_id("mark")
            axes.plot([log_beta, log_beta], [0, risk], color=ACCENT_COLOR, gid=gid)
            axes.plot(log_beta, risk, "o", color=ACCENT_COLOR, markersize=8, gid=gid)
    label_level(axes, alpha, f"alpha {format_number(alpha)}")
    label_axes(axes, "beta", "calibrated risk")
    gradient = _color_change(pixel_positions(axes, [low], [alpha])[0, 1], f"{name}-gradient")
    return figure_to_svg(figure, name=name, label="", overlay=gradient)


def beta_range(rounds: Sequence[CalibratedRound]) -> tuple[float, float]:
    """The log betas between which the risk changes in any round, including every finite beta."""
    betas = [shown.calibration.log_beta for shown in rounds if shown.finite]
    ranges = [changing_range(shown.loss.log_betas, shown.loss.risks) for shown in rounds]
    ends = [end for each in ranges for end in each] + betas
    return min(ends) - 0.4, max(ends) + 0.4


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
