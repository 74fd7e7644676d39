"""What came of the rounds: realized risk against alpha, and reward against the safe policy's."""

from __future__ import annotations

import math
from typing import Any

from tether.report import svg
from tether.report.chart import Chart, table
from tether.report.chart_marks import along, apart, listed, note, points
from tether.report.markup import Markup
from tether.report.number_format import NOTHING, interval, number
from tether.report.svg import FONT, HAIR, INK, MUTED, OVER
from tether.rounds.history import Estimate, History

FEW = 6
"""Up to so many alarms are named in the chart; more would lie on top of each other."""


def realized_risk(history: History) -> Chart:
    """The mean loss of every round, with its interval, against alpha."""
    seen = [(each, each.loss) for each in history.rounds if each.loss is not None]
    above = [each.number for each, loss in seen if loss.mean > history.alpha]
    clearly = [each.number for each, loss in seen if loss.lower > history.alpha]
    alternative = (
        f"Realized risk of {len(seen)} rounds against alpha = {number(history.alpha)}. "
        + (f"Mean above alpha in {listed(above)}" if above else "No mean is above alpha")
        + (f", with the whole interval in {listed(clearly)}." if clearly else ".")
    )

    def verdict(loss: Estimate) -> str:
        if loss.lower > history.alpha:
            return "clearly above alpha"
        return "above alpha, within its interval" if loss.mean > history.alpha else "at most alpha"

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = svg.blank(width, height, right=84.0)
        along(axes, [each.number for each in history.rounds], width)
        values = [loss for _, loss in seen]
        top = max([3 * history.alpha, 1.1 * history.alarm_risk] + [1.15 * e.mean for e in values])
        top = min(history.bound * 1.02, max(top, 1.3 * history.alpha))
        axes.set_ylim(0, top)
        axes.axhspan(history.alpha, top, facecolor=OVER, alpha=0.06, linewidth=0)
        alarmed = {each.round for each in history.alarms}
        for round in alarmed:
            axes.axvline(round, color=INK, linewidth=1, dashes=(1, 3))
            if len(alarmed) <= FEW:
                style: dict[str, Any] = {"color": INK, "fontsize": FONT, "va": "top"}
                axes.annotate("alarm", (round, top), (5, -3), textcoords="offset points", **style)
        points(axes, seen, len(history.rounds), over=history.alpha)
        axes.axhline(history.alpha, color=INK, linewidth=1.5)
        levels = [history.alpha, history.alarm_risk]
        if history.alarm_risk != history.alpha:
            axes.axhline(history.alarm_risk, color=MUTED, linewidth=1, dashes=(4, 3))
            words = apart(history.alpha, history.alarm_risk, 14 * top / height)
            note(axes, words[1], f"alarm at {number(history.alarm_risk)}", MUTED, outside=True)
            levels = list(words)
        note(axes, levels[0], f"alpha {number(history.alpha)}", INK, outside=True)
        svg.label(axes, "round", "mean loss")
        where = svg.places(axes, [e.number for e, _ in seen], [loss.mean for _, loss in seen])
        return svg.svg(figure, name=name, label=label, points=where)

    return Chart(
        "risk",
        "Realized risk, round by round",
        "The mean loss of each round's policy, with limits that hold at every time. A dot is at "
        "most alpha, an open triangle above it but within its limits, a full one clearly above; "
        "a ring is a round that the safe policy served alone.",
        alternative,
        draw,
        table(
            "Realized risk per round",
            ["Round", "Losses", "Mean loss", "Limits", "Against alpha"],
            [
                [e.number, f"{v.count:,}", number(v.mean), interval(v), verdict(v)]
                for e, v in reversed(seen)
            ],
        ),
        "broad",
        [f"Round {e.number}: {number(v.mean)} ({interval(v)}), {verdict(v)}" for e, v in seen],
        [each.number for each, _ in seen],
    )


def reward(history: History) -> Chart:
    """The mean reward of every round against the safe policy's own."""
    seen = [(each, each.reward) for each in history.rounds if each.reward is not None]
    safe = history.safe_reward
    against = "" if safe is None else f"; the safe policy's own is {number(safe.mean)}"
    last = f"{number(seen[-1][1].mean)} in round {seen[-1][0].number}" if seen else "not reported"

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = svg.blank(width, height, right=84.0)
        along(axes, [each.number for each in history.rounds], width)
        if safe is not None:
            if math.isfinite(safe.lower) and math.isfinite(safe.upper):
                axes.axhspan(safe.lower, safe.upper, facecolor=HAIR, alpha=0.7, linewidth=0)
            axes.axhline(safe.mean, color=INK, linewidth=1.5)
        points(axes, seen, len(history.rounds))
        axes.margins(y=0.15)
        axes.autoscale(axis="y")
        if safe is not None:
            note(axes, safe.mean, "safe policy", INK, outside=True)
        svg.label(axes, "round", "mean reward")
        where = svg.places(axes, [e.number for e, _ in seen], [v.mean for _, v in seen])
        return svg.svg(figure, name=name, label=label, points=where)

    return Chart(
        "reward",
        "Reward kept",
        f"The mean reward of each round: {last}{against}, drawn as a line with its interval.",
        f"Mean reward of {len(seen)} rounds: {last}{against}.",
        draw,
        table(
            "Reward per round",
            ["Round", "Rewards", "Mean reward", "Limits", "Safe policy's mean"],
            [
                [
                    e.number,
                    f"{v.count:,}",
                    number(v.mean),
                    interval(v),
                    NOTHING if safe is None else number(safe.mean),
                ]
                for e, v in reversed(seen)
            ],
        ),
        tips=[f"Round {e.number}: {number(v.mean)} ({interval(v)})" for e, v in seen],
        rounds=[each.number for each, _ in seen],
    )
