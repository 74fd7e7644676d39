"""The figures: the paper's three panels, mix beside clip, what accept-reject costs, and ramps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from experiments import style
from experiments.harness import Task

Row = Mapping[str, Any]


def _color(alpha: float) -> Any:
    if alpha >= 1:
        return style.RED
    return mpl.colormaps["viridis"](0.92 - 0.95 * min(alpha, 0.9))


def _label(alpha: float) -> str:
    return "no control" if alpha >= 1 else f"α = {alpha:g}"


def _line(axes: Axes, rows: Sequence[Row], key: str, alpha: float, *, dashed: bool = False) -> None:
    """One mean over rounds with a band of one standard error."""
    number = [row["round"] for row in rows]
    mean = np.array([row[key] for row in rows], dtype=float)
    error = np.nan_to_num([row[f"{key}_error"] for row in rows])
    look = {"color": _color(alpha), "lw": 2.2 if alpha >= 1 else 1.6}
    axes.plot(number, mean, ls="--" if dashed else "-", label=_label(alpha), **look)
    axes.fill_between(number, mean - error, mean + error, color=_color(alpha), alpha=0.14, lw=0)


def _mine(table: Sequence[Row], arm: str, alpha: float) -> list[Row]:
    return [row for row in table if row["arm"] == arm and row["alpha"] == alpha]


def _finish(axes: Axes, title: str, *, zero: bool = True) -> None:
    axes.set_title(title)
    axes.set_xlabel("round")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.margins(x=0.01)
    axes.grid(axis="y", color="#e6e6e6", lw=0.8)
    axes.set_axisbelow(True)
    if zero:
        axes.set_ylim(bottom=0)


def _three(table: Sequence[Row], alphas: Sequence[float], arms: Sequence[str]) -> Any:
    """A figure of infeasible share, mean objective and best so far; its axes beside it.

    Marks at the right edge of the first show what was tolerated. The second arm is dashed.
    """
    figure, places = style.panels(3, height=3.9)
    titles = {
        "infeasible": "Infeasible, share of actions",
        "objective": "Objective, mean of actions",
        "best": "Objective, best so far",
    }
    for axes, (key, title) in zip(places, titles.items(), strict=True):
        for alpha in alphas:
            for arm in arms:
                mine = _mine(table, arm, alpha)
                _line(axes, mine, key, alpha, dashed=arm != arms[0])
        _finish(axes, title)
    last = max(row["round"] for row in table)
    edge = [1.01 * last, 1.05 * last]
    for alpha in alphas:
        if alpha < 1:
            places[0].plot(edge, [alpha] * 2, color=_color(alpha), lw=3, solid_capstyle="butt")
    places[0].set_ylim(0, 1.01)
    return figure, places


def _panels(task: Task, table: Sequence[Row]) -> None:
    alphas = sorted({row["alpha"] for row in table if row["arm"] == "clip"})
    figure, places = _three(table, alphas, ["clip"])
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(alphas), frameon=False)
    task.figure("panels", figure)


def _families(task: Task, table: Sequence[Row]) -> None:
    alphas = sorted({row["alpha"] for row in table if row["arm"] == "mix"})
    if not alphas:
        return
    figure, _ = _three(table, alphas, ["clip", "mix"])
    handles = [mpl.lines.Line2D([], [], color=_color(a), lw=2, label=_label(a)) for a in alphas]
    for name, dash in (("clip", "-"), ("mix", "--")):
        handles.append(mpl.lines.Line2D([], [], color=style.INK, ls=dash, lw=1.6, label=name))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    task.figure("families", figure)


def _cost(task: Task, table: Sequence[Row]) -> None:
    alphas = sorted({row["alpha"] for row in table if row["arm"] == "clip"})
    figure, axes = style.panels(width=6.2, height=3.9)
    for alpha in alphas:
        _line(axes, _mine(table, "clip", alpha), "draws", alpha)
    _finish(axes, "Draws for one action of clip", zero=False)
    axes.set_yscale("log")
    axes.set_ylim(bottom=0.9)
    axes.set_yticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
    axes.minorticks_off()
    figure.legend(loc="outside right center", frameon=False)
    task.figure("cost", figure)


def _ramps(task: Task, table: Sequence[Row]) -> None:
    """Aimed ramps; without control both the aimed and, dashed, the plain strong optimizer."""
    alphas = sorted({row["alpha"] for row in table if row["arm"] == "aimed_ramp"})
    if not alphas:
        return
    figure, places = _three(table, alphas, ["aimed_ramp"])
    handles, labels = places[0].get_legend_handles_labels()
    labels = [label.replace("no control", "aimed, no control") for label in labels]
    plain = _mine(table, "ramp", 1.0)
    if plain:
        for axes, key in zip(places, ("infeasible", "objective", "best"), strict=True):
            _line(axes, plain, key, 1.0, dashed=True)
        handles.append(places[0].get_lines()[-1])
        labels.append("not aimed, no control")
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    task.figure("ramps", figure)


def draw(task: Task, table: Sequence[Row]) -> None:
    """Every figure of the experiment."""
    _panels(task, table)
    _families(task, table)
    _cost(task, table)
    _ramps(task, table)
