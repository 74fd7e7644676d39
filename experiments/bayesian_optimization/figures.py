"""The figures of the Bayesian optimization experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import style
from experiments.bayesian_optimization import townsend

COLOURS = {
    "tethered": style.BLUE,
    "uncontrolled": style.RED,
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
    style.label(axes[0, 0], 0.2, alpha + 0.035, f"alpha = {alpha:g}")
    style.label(axes[1, 0], 0.2, most + 0.025, "optimum")
    axes[1, 0].legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, 0.85), handlelength=1.2)
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
