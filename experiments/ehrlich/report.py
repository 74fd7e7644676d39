"""Tables from the rounds of all runs: means over seeds, and whether alpha was kept."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Task, mean_and_error

Row = Mapping[str, Any]

COLUMNS = (
    *("arm", "alpha", "seed", "round", "exists", "limited", "log_beta", "allowed", "log_psi"),
    *("risk", "effective", "draws", "infeasible", "optimized_infeasible", "drift", "unread"),
    *("objective", "best", "distinct", "dpo_loss", "first_share", "share", "seconds"),
)
MEANS = (
    *("infeasible", "unread", "objective", "best", "draws", "optimized_infeasible", "drift"),
    "share",
)
SHOWN = ("arm", "alpha", "seed", "round", "infeasible", "objective", "best", "draws", "seconds")


def line(row: Row) -> str:
    """One row of a run, for the eye."""
    parts = ((key, row[key]) for key in SHOWN)
    return " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in parts)


def _parsed(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read(path: Path) -> list[dict[str, Any]]:
    """A table that was written; none if there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [{key: _parsed(value) for key, value in row.items()} for row in csv.DictReader(file)]


def merged(old: Sequence[Row], new: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Both, sorted, the new where both have a row of the same keys."""
    found = {tuple(row[key] for key in keys): row for row in (*old, *new)}
    return [found[key] for key in sorted(found)]


def groups(rows: Sequence[Row]) -> dict[tuple[str, float], dict[int, list[Row]]]:
    """Rows of all seeds, by (arm, alpha) and round."""
    found: dict[tuple[str, float], dict[int, list[Row]]] = {}
    for row in rows:
        of_run = found.setdefault((row["arm"], float(row["alpha"])), {})
        of_run.setdefault(row["round"], []).append(row)
    return found


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means and standard errors over seeds, one row an arm, alpha and round.

    `kept` says whether the mean infeasibility is at most alpha and three standard errors.
    """
    table = []
    for (arm, alpha), rounds in groups(rows).items():
        for number, of_seeds in rounds.items():
            line: dict[str, Any] = {"arm": arm, "alpha": alpha, "round": number}
            line["seeds"] = len(of_seeds)
            for key in MEANS:
                line[key], line[f"{key}_error"] = mean_and_error(
                    float(row[key]) for row in of_seeds
                )
            line["log_beta_median"] = float(np.median([row["log_beta"] for row in of_seeds]))
            line["safe_served"] = sum(row["exists"] is False for row in of_seeds)
            line["limited"] = sum(row["limited"] is True for row in of_seeds)
            error = np.nan_to_num(line["infeasible_error"])
            line["kept"] = bool(line["infeasible"] <= alpha + 3 * error)
            table.append(line)
    return table


def _late(rows: Sequence[Row], key: str) -> tuple[float, float]:
    """Mean over the last quarter of the rounds, and its standard error over seeds."""
    first = 0.75 * max(row["round"] for row in rows)
    by_seed: dict[int, list[float]] = {}
    for row in rows:
        if row["round"] > first:
            by_seed.setdefault(row["seed"], []).append(row[key])
    return mean_and_error(float(np.mean(values)) for values in by_seed.values())


def overview(rows: Sequence[Row], table: Sequence[Row]) -> list[dict[str, Any]]:
    """One row an arm and alpha: worst round, last rounds, and whether alpha was kept."""
    found = []
    for arm, alpha in dict.fromkeys((row["arm"], row["alpha"]) for row in table):
        mine = [row for row in table if (row["arm"], row["alpha"]) == (arm, alpha)]
        later = [row for row in mine if row["round"] > 0] or mine
        worst = max(later, key=lambda row: row["infeasible"])
        last = later[-1]
        runs = [row for row in rows if (row["arm"], row["alpha"]) == (arm, alpha)]
        infeasible, objective = _late(runs, "infeasible"), _late(runs, "objective")
        last_quarter = [row for row in later if row["round"] > 0.75 * last["round"]]
        found.append(
            {
                "arm": arm,
                "alpha": alpha,
                "seeds": last["seeds"],
                "rounds": last["round"],
                "rounds_kept": sum(row["kept"] for row in later),
                "infeasible_worst": worst["infeasible"],
                "infeasible_worst_error": worst["infeasible_error"],
                "infeasible_late": infeasible[0],
                "infeasible_late_error": infeasible[1],
                "unread_late": _late(runs, "unread")[0],
                "objective_late": objective[0],
                "objective_late_error": objective[1],
                "best_last": last["best"],
                "best_last_error": last["best_error"],
                "draws_mean": float(np.mean([row["draws"] for row in later])),
                "draws_most": max(row["draws"] for row in later),
                "safe_served": sum(row["safe_served"] for row in later),
                "draws_most_of_a_run": max(row["draws"] for row in runs),
                "held_back": sum(row["log_beta"] < 0 for row in runs if row["round"] > 0),
                "limited": sum(row["limited"] for row in later),
                "limited_late": sum(row["limited"] for row in last_quarter),
            }
        )
    return found


def write(task: Task, rows: Sequence[Row]) -> None:
    """All tables, and the figures where matplotlib is installed."""
    table = summary(rows)
    task.table("summary", table)
    short = overview(rows, table)
    task.table("overview", short)
    for each in short:
        print(
            " ".join(
                f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in each.items()
            )
        )
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        print("matplotlib is not installed: draw the figures elsewhere, with --figures")
        return
    from experiments.ehrlich import figures

    figures.draw(task, table)
