"""Tables and the figure from the rounds of all runs: means over seeds, ratios, paired tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments import style
from experiments.harness import Task, mean_and_error, paired

Row = Mapping[str, Any]


def groups(rows: Sequence[Row]) -> dict[tuple[str, str, float], list[Row]]:
    """Rows of all seeds and rounds, by where DPO starts, arm and alpha."""
    found: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        found.setdefault((row["dpo_from"], row["arm"], row["alpha"]), []).append(row)
    return found


def late(rows: Sequence[Row], key: str) -> dict[int, float]:
    """By seed the mean over the last quarter of the rounds."""
    first = 0.75 * max(row["round"] for row in rows)
    seeds = sorted({row["seed"] for row in rows})
    return {
        seed: float(np.mean([r[key] for r in rows if r["seed"] == seed and r["round"] > first]))
        for seed in seeds
    }


def overview(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row an arm and alpha: late means, whether alpha was kept, and what control changes.

    `ratio` is the late objective over that of the same policies without control, and `difference`
    its paired difference over seeds, with the p-value of a t-test. `over_free` is the difference
    from policies that are neither aimed nor controlled.
    """
    table, runs = [], groups(rows)
    for (base, arm, alpha), mine in runs.items():
        line: dict[str, Any] = {"dpo_from": base, "arm": arm, "alpha": alpha}
        objective, infeasible = late(mine, "objective"), late(mine, "infeasible")
        line["seeds"] = len(objective)
        for name, values in (("infeasible", infeasible), ("objective", objective)):
            line[name], line[f"{name}_error"] = mean_and_error(values.values())
        worst = 0.0
        for number in sorted({row["round"] for row in mine} - {0}):
            mean, error = mean_and_error(r["infeasible"] for r in mine if r["round"] == number)
            worst = max(worst, mean - 3 * np.nan_to_num(error))
        line["kept"] = bool(worst <= alpha)
        free = runs.get((base, "free", 1.0))
        if free is not None:
            over = paired(objective, late(free, "objective"))
            line |= {
                f"over_free{key[10:]}": over[key] for key in ("difference", "difference_error")
            }
        own = runs.get((base, "aimed_free" if arm.startswith("aimed") else "free", 1.0))
        if own is not None:
            line |= paired(objective, late(own, "objective"))
        best = {row["seed"]: row["best"] for row in mine if row["round"] == max_round(mine)}
        line["best"], line["best_error"] = mean_and_error(best.values())
        draws = [row.get("draws", np.nan) for row in mine]
        line["draws"] = float(np.nan_to_num(draws, nan=1.0).mean())
        table.append(line)
    return table


def max_round(rows: Sequence[Row]) -> int:
    return max(row["round"] for row in rows)


def draw(task: Task, rows: Sequence[Row]) -> None:
    """Infeasible share, mean objective and best so far, round by round, of every arm."""
    figure, places = style.panels(3, height=3.9)
    titles = {
        "infeasible": "Infeasible, share of actions",
        "objective": "Objective, mean of actions",
        "best": "Objective, best so far",
    }
    runs = {key[1:]: mine for key, mine in groups(rows).items() if key[0] == "served"}
    arms = list(dict.fromkeys(arm for arm, _ in runs))
    for axes, (key, title) in zip(places, titles.items(), strict=True):
        for (arm, alpha), mine in runs.items():
            numbers = sorted({row["round"] for row in mine})
            found = [mean_and_error(r[key] for r in mine if r["round"] == n) for n in numbers]
            mean, error = (np.array(each) for each in zip(*found, strict=True))
            colour = style.COLOURS[arms.index(arm) % len(style.COLOURS)]
            style.band(axes, numbers, mean, error, colour, alpha=0.4 + 0.6 * alpha)
            axes.lines[-1].set_label(arm if alpha == 1 else f"{arm}, α = {alpha:g}")
        axes.set_title(title)
        axes.set_xlabel("round")
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    task.figure("rounds", figure)
