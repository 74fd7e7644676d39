"""Constrained active learning on airfoil, kin8nm and MEPS: `python -m experiments.active_learning`.

Writes `summary.csv`, `iterations.csv` and three figures. Blocks of seeds that an earlier run kept
in `results/seeds/` are not run again: remove that folder after a change of code.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import harness
from experiments.active_learning import pictures
from experiments.active_learning.learner import COLUMNS, METHODS
from experiments.active_learning.runs import Case, cases, run

EARLY = 10
"""The first iterations, which reference points are stated for."""

Found = dict[Case, NDArray[np.float64]]


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Run, write, and return the rows of the summary."""
    task = harness.begin(__file__, arguments)
    found = run(task, list(cases(task)))
    summary = [row for case, rows in found.items() for row in summarize(case, rows)]
    task.table("summary", kept(task, "summary") + summary)
    unfolded = [row for case, rows in found.items() for row in unfold(case, rows)]
    task.table("iterations", kept(task, "iterations") + unfolded)
    for name, draw in pictures.ALL.items():
        if not task["only"]:
            task.figure(name, draw(found))
    print_summary(summary)
    task.close()
    with (task.out / "run.txt").open("a", encoding="utf-8") as file:
        file.write((task.out / "seeds" / "blocks.txt").read_text(encoding="utf-8"))
    return summary


def kept(task: harness.Task, name: str) -> list[dict[str, Any]]:
    """The rows of a table that belong to designs which are not run this time."""
    path = task.out / f"{name}.csv"
    if not task["only"] or not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["design"] not in task["only"]]


def column(rows: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """One column of a case's results: seeds × methods × iterations, the first before any."""
    return rows[..., COLUMNS.index(name)]


def summarize(case: Case, rows: NDArray[np.float64]) -> list[dict[str, Any]]:
    """A row a method: risk, how often only the safe policy was served, and test errors.

    The last two columns compare within each seed: with the safe policy only, and the model of all
    labels with that of the training rows.
    """
    last = case.settings["iterations"]
    reference = case.methods.index("safe only")
    safe, safe_error = (
        column(rows, "risk")[:, reference, 1],
        column(rows, "error")[:, reference, last],
    )
    table = []
    for place, method in enumerate(case.methods):
        risk, missed, error, error_of_all = (
            column(rows, name)[:, place] for name in ("risk", "log_beta", "error", "error_of_all")
        )
        early = risk[:, 1 : EARLY + 1].mean(axis=1)
        calibrated = METHODS[method].beta == "calibrated"
        none = np.isneginf(missed[:, 1:])
        row: dict[str, Any] = {
            "design": case.design,
            "data": case.name,
            "alpha": case.alpha,
            "gamma": case.gamma,
            "method": method,
            "seeds": len(rows),
            "iterations": last,
            "safe_risk": safe.mean(),
        }
        row |= _with_error("risk_first_ten", early)
        row |= _with_error("risk", risk[:, 1:].mean(axis=1))
        row["only_safe_first_ten"] = none[:, :EARLY].mean() if calibrated else ""
        row["only_safe"] = none.mean() if calibrated else ""
        row["alarmed_at_start"] = column(rows, "alarm")[:, place, 0].mean()
        row["alarmed"] = column(rows, "alarm")[:, place, last].mean()
        row |= _with_error("mse_initial", error[:, 0])
        row |= _with_error("mse", error[:, last])
        row |= _with_error("mse_all_labels", error_of_all[:, last])
        row |= _with_error("mse_over_safe", error[:, last] / safe_error - 1)
        row |= _with_error("all_labels_over_training", error_of_all[:, last] / error[:, last] - 1)
        table.append(row)
    return table


def unfold(case: Case, rows: NDArray[np.float64]) -> list[dict[str, Any]]:
    """Means and standard errors per iteration: the first ten, then every fifth."""
    table = []
    for place, method in enumerate(case.methods):
        for at in range(rows.shape[2]):
            if at > EARLY and at % 5:
                continue
            row: dict[str, Any] = {
                "design": case.design,
                "data": case.name,
                "alpha": case.alpha,
                "method": method,
                "iteration": at,
            }
            for name, title in (("risk", "risk"), ("error", "mse"), ("error_of_all", "mse_all")):
                row |= _with_error(title, column(rows, name)[:, place, at])
            if METHODS[method].beta == "calibrated" and at > 0:
                row["only_safe"] = np.isneginf(column(rows, "log_beta")[:, place, at]).mean()
            else:
                row["only_safe"] = ""
            table.append({key: _fewer(value) for key, value in row.items()})
    return table


def print_summary(summary: list[dict[str, Any]]) -> None:
    """The summary as a person reads it."""
    print(
        f"{'design':9}{'data':9}{'alpha':>6} {'method':18}{'safe':>6}"
        f"{'risk, first ten':>18}{'risk, all':>16}{'only safe':>10}{'alarmed':>9}"
        f"{'test MSE':>20}{'all labels':>20}"
    )
    for row in summary:
        none = "" if row["only_safe"] == "" else f"{row['only_safe']:.0%}"
        print(
            f"{row['design']:9}{row['data']:9}{row['alpha']:6g} {row['method']:18}"
            f"{row['safe_risk']:6.3f}{_shown(row, 'risk_first_ten', 3):>18}"
            f"{_shown(row, 'risk', 3):>16}{none:>10}{row['alarmed']:>9.0%}"
            f"{_shown(row, 'mse', 4):>20}{_shown(row, 'mse_all_labels', 4):>20}"
        )


def _with_error(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    mean, error = harness.mean_and_error(values)
    return {name: mean, f"{name}_se": error}


def _shown(row: dict[str, Any], name: str, digits: int) -> str:
    return f"{row[name]:.{digits}f} ± {row[f'{name}_se']:.{digits}f}"


def _fewer(value: Any) -> Any:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.4g}"
    return value


if __name__ == "__main__":
    main()
