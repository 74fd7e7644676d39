"""How far the rounds went, what it cost and what it rested on: beta, acceptance, sample size."""

from __future__ import annotations

import math

from tether.report import svg
from tether.report.chart import Chart, table
from tether.report.chart_marks import along, beta_ticks, columns, line, locator
from tether.report.markup import Markup
from tether.report.number_format import NOTHING, beta, number, percent
from tether.report.svg import HAIR, MUTED
from tether.rounds.history import History


def how_far(history: History) -> Chart:
    """Beta of every round on a logarithmic scale, with places of their own for 0 and infinity."""
    rounds = history.rounds
    logs = [-math.inf if e.calibration is None else e.calibration.log_beta for e in rounds]
    finite = [value for value in logs if math.isfinite(value)]
    low, high = min(finite, default=-0.7), max(finite, default=0.7)
    middle, half = (low + high) / 2, max((high - low) / 2, 0.7)
    low, high, step = middle - half, middle + half, 0.45 * half
    heights = [min(max(value, low - step), high + step) for value in logs]
    served = [f"Round {e.number}: beta {beta(v)}" for e, v in zip(rounds, logs, strict=True)]
    safe = sum(value == -math.inf for value in logs)
    whole = sum(value == math.inf for value in logs)

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = svg.blank(width, height, 66.0)
        along(axes, [each.number for each in rounds], width)
        ticks = beta_ticks(low, high)
        if safe:
            ticks[low - step] = "0 (safe)"
        if whole:
            ticks[high + step] = "∞ (whole)"
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.set_ylim(low - step * (1.5 if safe else 0.5), high + step * (1.5 if whole else 0.5))
        line(axes, [each.number for each in rounds], heights, hollow=[v == -math.inf for v in logs])
        svg.label(axes, "round", "beta")
        where = svg.places(axes, [each.number for each in rounds], heights)
        return svg.svg(figure, name=name, label=label, points=where)

    return Chart(
        "beta",
        "How far: beta",
        "0 is the safe policy, ∞ the optimized one. The scale is logarithmic between them.",
        f"Beta over {len(rounds)} rounds, latest {beta(logs[-1])}; {safe} safe only, "
        f"{whole} with the optimized policy whole.",
        draw,
        table(
            "Beta per round",
            ["Round", "Optimized policy", "Beta"],
            [
                [e.number, e.policy or NOTHING, beta(v)]
                for e, v in reversed(list(zip(rounds, logs, strict=True)))
            ],
        ),
        tips=served,
        rounds=[each.number for each in rounds],
    )


def acceptance(history: History) -> Chart:
    """The share of its draws that a rejection sampler keeps."""
    seen = [
        (each.number, each.calibration.acceptance)
        for each in history.rounds
        if each.calibration is not None and math.isfinite(each.calibration.acceptance)
    ]

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = svg.blank(width, height)
        along(axes, [each.number for each in history.rounds], width)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        line(axes, *columns(seen))
        svg.label(axes, "round", "draws kept")
        return svg.svg(figure, name=name, label=label, points=svg.places(axes, *columns(seen)))

    return Chart(
        "acceptance",
        "What it costs: acceptance",
        "The share of its draws that a rejection sampler keeps; one over it is draws an action.",
        f"Acceptance over {len(seen)} rounds, latest {percent(seen[-1][1] if seen else None)}.",
        draw,
        table(
            "Acceptance per round",
            ["Round", "Draws kept"],
            [[n, percent(value)] for n, value in reversed(seen)],
        ),
        tips=[f"Round {n}: {percent(value)} of the draws kept" for n, value in seen],
        rounds=[n for n, _ in seen],
    )


def sample_size(history: History) -> Chart:
    """How many equally weighted rows the weighted log is worth, beside the rows it has."""
    seen = [
        (each.number, each.calibration.effective_sample_size, each.calibration.rows)
        for each in history.rounds
        if each.calibration is not None
    ]
    last = f"{number(seen[-1][1])} of {seen[-1][2]:,} rows" if seen else "none"

    def draw(name: str, width: float, height: float, label: str) -> Markup:
        figure, axes = svg.blank(width, height)
        along(axes, [each.number for each in history.rounds], width)
        numbers, sizes, rows = columns(seen, 3)
        axes.set_ylim(0, 1.12 * max(rows, default=1))
        axes.fill_between(numbers, rows, color=HAIR, alpha=0.7, linewidth=0)
        axes.plot(numbers, rows, color=MUTED, linewidth=1, dashes=(4, 3))
        line(axes, numbers, sizes)
        axes.yaxis.set_major_locator(locator(5))
        axes.yaxis.set_major_formatter(lambda value, _: number(value))
        svg.label(axes, "round", "rows")
        return svg.svg(figure, name=name, label=label, points=svg.places(axes, numbers, sizes))

    return Chart(
        "effective",
        "What it rests on: effective sample size",
        "How many equally weighted rows the weighted log is worth, below the rows it has (dashed): "
        f"{last} at last.",
        f"Effective sample size over {len(seen)} rounds, latest {last}.",
        draw,
        table(
            "Effective sample size per round",
            ["Round", "Effective rows", "Rows", "Largest weight"],
            [
                [
                    each.number,
                    number(each.calibration.effective_sample_size),
                    f"{each.calibration.rows:,}",
                    percent(each.calibration.max_weight),
                ]
                for each in reversed(history.rounds)
                if each.calibration is not None
            ],
        ),
        tips=[f"Round {n}: worth {number(size)} of {rows:,} rows" for n, size, rows in seen],
        rounds=[n for n, *_ in seen],
    )
