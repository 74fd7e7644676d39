"""Charts of one round at a time: the calibrated risk, its neighbourhood of beta, the weights.

All rounds are drawn into the same axes, so that they can be compared; the page shows one of them
and, where there are few, the others faintly behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether._core.types import Floats
from tether.control.calibration import Calibration
from tether.control.diagnostics import Curve
from tether.report import svg
from tether.report.chart_marks import beta_ticks, note
from tether.report.markup import Markup, element
from tether.report.number_format import number
from tether.report.sentences import round_label
from tether.report.svg import ACCENT, INK, OVER
from tether.rounds.history import RoundRecord

NEAR = math.log(2)
"""How far the neighbourhood of beta reaches on either side, in log beta."""


@dataclass(frozen=True)
class Drawn:
    """A calibrated round with its curve; the chosen one is shown before any script runs."""

    record: RoundRecord
    found: Calibration
    curve: Curve
    chosen: bool

    def gid(self, kind: str) -> str:
        """How the drawing marks what belongs to this round."""
        return f"~{kind}{'+chosen' if self.chosen else ''} {self.record.number}"


def drawn(rounds: Sequence[RoundRecord]) -> list[Drawn]:
    """The rounds that were calibrated; the last round is the chosen one, if it is among them."""
    return [
        Drawn(each, each.calibration, each.calibration.curve(), each is rounds[-1])
        for each in rounds
        if each.calibration is not None
    ]


def draw_risk(rounds: Sequence[Drawn], name: str, width: float, height: float) -> Markup:
    """The calibrated risk along beta."""
    figure, axes = svg.blank(width, height, below=44.0)
    alpha = rounds[-1].found.alpha
    low, high = reached(rounds)
    highest = max(float(each.curve.risk.max(initial=0.0)) for each in rounds)
    top = min(max(1.08 * highest, 1.5 * alpha), 1.02 * rounds[-1].found.bound)
    axes.set_xlim(low, high)
    axes.set_ylim(0, top)
    ticks = beta_ticks(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.locator_params(axis="y", nbins=5)
    axes.axhspan(alpha, top, facecolor=OVER, alpha=0.06, linewidth=0)
    axes.axhline(alpha, color=INK, linewidth=1.5)
    scale = width / (high - low), height / top
    for each in rounds:
        x, y = thinned(each.curve.log_beta, each.curve.risk, scale)
        axes.plot(x, y, color=ACCENT, linewidth=2.2, gid=each.gid("curve"))
        if math.isfinite(each.found.log_beta):
            where = each.found.log_beta
            axes.plot([where, where], [0, each.found.risk], color=ACCENT, gid=each.gid("mark"))
            axes.plot(where, each.found.risk, "o", color=ACCENT, markersize=8, gid=each.gid("mark"))
    note(axes, alpha, f"alpha {number(alpha)}")
    svg.label(axes, "beta", "calibrated risk")
    tint = _tint(svg.places(axes, [low], [alpha])[0, 1], "curve-tint")
    return svg.svg(figure, name=name, label="", extra=tint)


def reached(rounds: Sequence[Drawn]) -> tuple[float, float]:
    """The log betas between which the risk changes in any round, all chosen ones included."""
    betas = [each.found.log_beta for each in rounds if math.isfinite(each.found.log_beta)]
    curves = [each.curve.log_beta for each in rounds if len(each.curve.log_beta)]
    low = [float(np.quantile(each, 0.02)) for each in curves]
    high = [float(each[-1]) for each in curves]
    return min(low + betas, default=-1.0) - 0.4, max(high + betas, default=1.0) + 0.4


def draw_near(rounds: Sequence[Drawn], name: str, width: float, height: float) -> Markup:
    """The calibrated risk from half of beta to twice beta."""
    figure, axes = svg.blank(width, height, below=44.0)
    alpha = rounds[-1].found.alpha
    inside = []
    for each in rounds:
        if not math.isfinite(each.found.log_beta):
            continue
        away = each.curve.log_beta - each.found.log_beta
        kept = np.flatnonzero(np.abs(away) <= NEAR)
        part = slice(max(kept[0] - 1, 0), kept[-1] + 2)
        inside.append((each, away[part], each.curve.risk[part]))
    values = np.concatenate([risk for *_, risk in inside] + [np.array([0.8, 1.2]) * alpha])
    low, high = float(values.min()), float(np.quantile(values, 0.98))
    space = 0.1 * (high - low)
    axes.set_xlim(-NEAR, NEAR)
    axes.set_ylim(max(low - space, 0), high + space)
    axes.set_xticks(
        [-NEAR, -NEAR / 2, 0, NEAR / 2, NEAR], ["½ ×", "0.71 ×", "beta", "1.41 ×", "2 ×"]
    )
    axes.axhspan(alpha, high + space, facecolor=OVER, alpha=0.06, linewidth=0)
    axes.axhline(alpha, color=INK, linewidth=1.5)
    axes.axvline(0, color=ACCENT, linewidth=1)
    for each, away, risk in inside:
        x, y = thinned(away, risk, (width / (2 * NEAR), height / (high - low)))
        axes.plot(x, y, color=ACCENT, linewidth=2.2, gid=each.gid("curve"))
        axes.plot(0, each.found.risk, "o", color=ACCENT, markersize=8, gid=each.gid("mark"))
    note(axes, alpha, "alpha")
    svg.label(axes, "times the beta chosen", "calibrated risk")
    tint = _tint(svg.places(axes, [0], [alpha])[0, 1], "near-tint")
    return svg.svg(figure, name=name, label="", extra=tint)


def draw_weights(rounds: Sequence[Drawn], name: str, width: float, height: float) -> Markup:
    """How the weight is spread over the rows: the lightest first, against all equal."""
    figure, axes = svg.blank(width, height, below=44.0)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    shares = [0, 0.25, 0.5, 0.75, 1]
    axes.set_xticks(shares, ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.set_yticks(shares, ["0", "25 %", "50 %", "75 %", "100 %"])
    axes.plot([0, 1], [0, 1], color=INK, linewidth=1.2, dashes=(4, 3))
    axes.text(0.46, 0.5, "all equal ", ha="right", va="bottom", color=INK, fontsize=svg.FONT)
    for each in rounds:
        carried = spread(each.found.relative_weights)
        if carried is None:
            continue
        x, y = thinned(np.linspace(0, 1, len(carried)), carried, (width, height))
        axes.plot(x, y, color=ACCENT, linewidth=2.2, gid=each.gid("curve"))
    svg.label(axes, "rows, lightest first", "weight they carry")
    return svg.svg(figure, name=name, label="")


def spread(relative_weights: Sequence[float]) -> Floats | None:
    """The share of the weight below each quantile, None where no row has weight."""
    weights = np.asarray(relative_weights)
    below = np.append(0.0, np.cumsum((weights[1:] + weights[:-1]) / 2))
    return np.asarray(below / below[-1]) if below[-1] > 0 else None


def thinned(x: Floats, y: Floats, scale: tuple[float, float], within: float = 0.4) -> list[Floats]:
    """The points that a line needs to stay within a fraction of a pixel of all of them."""
    where = np.column_stack([x * scale[0], y * scale[1]])
    keep = np.zeros(len(x), dtype=bool)
    keep[:1] = keep[-1:] = True
    open_ = [(0, len(x) - 1)]
    while open_:
        left, right = open_.pop()
        if right - left < 2:
            continue
        along = where[right] - where[left]
        length = float(np.hypot(*along)) or 1.0
        away = where[left + 1 : right] - where[left]
        distance = np.abs(along[0] * away[:, 1] - along[1] * away[:, 0]) / length
        worst = int(distance.argmax())
        if distance[worst] > within:
            keep[left + 1 + worst] = True
            open_ += [(left, left + 1 + worst), (left + 1 + worst, right)]
    return [x[keep], y[keep]]


def alternative(each: Drawn) -> str:
    """The calibrated risk curve in a sentence."""
    found, curve = each.found, each.curve
    reached = "no beta passes" if not found.exists else "every beta passes"
    if math.isfinite(found.log_beta):
        reached = f"it meets alpha = {number(found.alpha)} at beta = {number(found.beta)}"
    ends = f"from {number(curve.risk[0])} to {number(curve.risk[-1])}" if len(curve.risk) else ""
    return f"{round_label(each.record)}: the calibrated risk runs {ends}; {reached}."


def _tint(height: float, name: str) -> Markup:
    """A paint that changes where a line passes alpha."""
    stops = [("over", 0), ("over", 1), ("accent", 1)]
    return element(
        "linearGradient",
        [element("stop", class_=f"stop-{role}", offset=at) for role, at in stops],
        id=name,
        gradientUnits="userSpaceOnUse",
        x1=0,
        x2=0,
        y1=0,
        y2=f"{height:.1f}",
    )
