"""The figures of the Bayesian optimization experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import style
from experiments.bayesian_optimization import townsend

COLOURS = {
    "tethered": style.BLUE,
    "tethered, hidden": style.PURPLE,
    "uncontrolled": style.RED,
    "uncontrolled, hidden": style.ORANGE,
    "safe": style.GREEN,
    "uniform": style.GREY,
}
DASHED = (0, (4, 3))


def rounds(
    rows: Sequence[Mapping[str, Any]], temperatures: Sequence[float], alpha: float, most: float
) -> Any:
    """Violation rate above, best feasible value below; a column a temperature."""
    figure, axes = style.panels(len(temperatures), 2, width=3.1, height=2.5)
    axes = np.asarray(axes).reshape(2, len(temperatures))
    for column, temperature in enumerate(temperatures):
        above, below = axes[:, column]
        for arm, colour in COLOURS.items():
            path = [
                row
                for row in rows
                if row["arm"] == arm
                and (np.isnan(row["temperature"]) or row["temperature"] == temperature)
                and (np.isnan(row["alpha"]) or row["alpha"] == alpha)
            ]
            place = [row["round"] for row in path]
            for panel, what in ((above, "risk"), (below, "best")):
                mean, error = ([row[f"{what}{end}"] for row in path] for end in ("", "_error"))
                style.band(panel, place, mean, error, colour, label=arm)
        above.axhline(alpha, color=style.INK, lw=1, ls=DASHED)
        below.axhline(most, color=style.INK, lw=1, ls=DASHED)
        above.set(ylim=(0, 1), xlim=(0, max(place)), xticklabels=[])
        below.set(ylim=(1.5, 2.1), xlim=(0, max(place)), xlabel="round")
        above.set_title(f"temperature {temperature:g}")
    axes[0, 0].set_ylabel("risk of a violation")
    axes[1, 0].set_ylabel("best feasible value")
    style.label(axes[0, 0], max(place), alpha + 0.035, f"alpha = {alpha:g}", ha="right")
    style.label(axes[1, 0], max(place), most + 0.025, "optimum", ha="right")
    axes[1, 0].legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, 0.85), handlelength=1.2)
    return figure


def dial(ends: Sequence[Mapping[str, Any]], alphas: Sequence[float], temperature: float) -> Any:
    """What alpha does to the risk and to the best value, beside what the temperature does."""
    figure, (left, right) = style.panels(2, width=3.9, height=3.1)
    turned = [
        next(
            row
            for row in ends
            if row["arm"] == "tethered"
            and row["temperature"] == temperature
            and row["alpha"] == alpha
        )
        for alpha in sorted(alphas)
    ]
    free = [row for row in ends if row["arm"] == "uncontrolled"]
    (safe,) = (row for row in ends if row["arm"] == "safe")
    for panel, what in ((left, "risk"), (right, "best")):
        panel.errorbar(
            [row["alpha"] for row in turned],
            [row[what] for row in turned],
            [2 * row[f"{what}_error"] for row in turned],
            fmt="o-",
            ms=5,
            color=COLOURS["tethered"],
        )
        for row in free:
            panel.axhline(row[what], color=COLOURS["uncontrolled"], lw=1)
        panel.axhline(safe[what], color=COLOURS["safe"], lw=1.2)
        panel.set(xlim=(0.1, 0.9), xlabel="alpha")
    left.plot([0, 1], [0, 1], color=style.INK, lw=1, ls=DASHED)
    left.set(ylim=(0, 1))
    left.set_title("Risk of a violation")
    right.set_title("Best feasible value")
    names = ", ".join(f"{row['temperature']:g}" for row in free)
    high = max(row["risk"] for row in free)
    style.label(left, 0.12, high + 0.045, f"uncontrolled, temperatures {names}", style.RED)
    style.label(left, 0.88, safe["risk"] - 0.045, "safe", style.GREEN, ha="right")
    style.label(left, 0.68, turned[-1]["risk"] - 0.15, "tethered", style.BLUE)
    style.label(left, 0.13, 0.3, "risk = alpha", rotation=33)
    return figure


def landscape(candidates: np.ndarray, shown: Any, settings: Mapping[str, Any]) -> Any:
    """The function, the feasible region, the safe policy, and what one seed evaluated."""
    temperature = settings["temperatures"][min(1, len(settings["temperatures"]) - 1)]
    figure, axes = style.panels(2, width=4.0, height=3.6)
    side, width = settings["candidates_a_side"], settings["half_width"]
    value = townsend.objective(candidates).reshape(side, side)
    inside = townsend.feasible(candidates).reshape(side, side)
    line = candidates[:side, 1]
    away = ((candidates - settings["safe_mean"]) ** 2).sum(axis=1).reshape(side, side)
    for each, arm in zip(axes, ("tethered", "uncontrolled"), strict=True):
        edge = width * side / (side - 1)  # the middle of a pixel is its candidate
        ends = [-edge, edge, -edge, edge]
        shade = np.where(inside, value, np.nan).T
        each.set_facecolor("#f1f1f1")
        each.imshow(shade, origin="lower", extent=ends, cmap="YlGnBu", alpha=0.7)
        each.contour(line, line, inside.T.astype(float), [0.5], colors=style.INK, linewidths=1.2)
        radii = [settings["safe_scale"] * k for k in (1, 2)]
        squares = [radius**2 for radius in radii]
        each.contour(line, line, away.T, squares, colors=style.GREEN, linewidths=1)
        chosen = shown[(shown["arm"] == arm) & (shown["temperature"] == temperature)]
        chosen = chosen[(chosen["alpha"] == settings["alpha"]) | chosen["alpha"].isna()]
        chosen = chosen[chosen["round"] > 0]
        actions = np.array(" ".join(chosen["points"]).split(), dtype=int)
        points = candidates[actions]
        good = townsend.feasible(points)
        bad = points[~good]
        each.plot(*points[good].T, "o", ms=4, mfc=COLOURS[arm], mec="white", mew=0.5)
        each.plot(*bad.T, "x", ms=5, mew=1.3, color=COLOURS[arm])
        each.plot(*townsend.OPTIMUM, "*", ms=11, mfc="#ffd500", mec=style.INK, mew=0.6)
        each.set(xlim=(-width, width), ylim=(-width, width), aspect="equal")
        text = f"{len(bad)} of {len(points)} evaluations violate"
        each.set_title(f"{arm}: {text}", fontsize=9)
    return figure
