"""Bayesian optimization on a tether: `python -m experiments.bayesian_optimization`.

The Townsend function is optimized where feasibility is unknown, learned from yes and no alone.
Candidates form a finite pool, so every policy here, tethered ones of past rounds included, has
exact probabilities, and the risk of what is deployed is a sum and not an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import pandas as pd

from experiments import harness
from experiments.bayesian_optimization import figures, runs, townsend

RUN = ["arm", "temperature", "alpha"]
UNCONTROLLED = ("uncontrolled", "aimed, uncontrolled", "safe", "uniform")


def summarize(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Mean and standard error over seeds, one row a run and round."""
    rows = []
    for key, group in found.groupby([*RUN, "round"], sort=False, dropna=False):
        row = dict(zip([*RUN, "round"], key, strict=True))
        for column in ("risk", "violations", "best"):
            row[column], row[f"{column}_error"] = harness.mean_and_error(group[column])
        row["safe_only"] = float((group["beta"] == 0).mean())
        rows.append(row | {"median_beta": float(group["beta"].median()), "seeds": len(group)})
    return rows


def totals(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Each run over all its rounds: its mean risk, and the best value at the end."""
    rows = []
    after = found[found["round"] > 0]
    for key, group in after.groupby(RUN, sort=False, dropna=False):
        row = dict(zip(RUN, key, strict=True))
        last = group[group["round"] == group["round"].max()]
        row["risk"], row["risk_error"] = harness.mean_and_error(
            group.groupby("seed")["risk"].mean()
        )
        row["worst_round"] = float(group.groupby("round")["risk"].mean().max())
        row["best"], row["best_error"] = harness.mean_and_error(last["best"])
        row["seeds"] = len(last)
        controlled = row["arm"] not in UNCONTROLLED
        row["holds_alpha"] = holds_alpha(group, row["alpha"]) if controlled else ""
        rows.append(row)
    return rows


def holds_alpha(group: pd.DataFrame, alpha: float) -> bool:
    """Whether the mean risk of every round is within three standard errors of alpha."""
    rounds = group.groupby("round")["risk"]
    return bool((rounds.mean() <= alpha + 3 * rounds.sem(ddof=1)).all())


def kept(task: harness.Task, name: str) -> list[dict[str, Any]]:
    """The rows of a table that belong to arms which are not run this time (setting `arms`)."""
    path = task.out / f"{name}.csv"
    if not path.is_file():
        return []
    table = pd.read_csv(path, keep_default_na=False, na_values=["nan"])
    return table[~table["arm"].isin(task["arms"])].to_dict("records")


def main(arguments: Sequence[str] | None = None) -> None:
    task = harness.begin(__file__, arguments)
    settings = {key: value for key, value in task.settings.items() if key != "processes"}
    folder = task.out / "seeds"
    folder.mkdir(exist_ok=True)
    units = [
        (arm, seed)
        for arm in runs.arms(settings)
        for seed in runs.seeds_of(settings, arm[0], arm[1])
    ]
    work = partial(runs.one_run, settings, folder)
    rows: list[dict] = []
    if task["processes"] == 1:
        for unit in units:
            rows.extend(work(unit))
    else:
        with ProcessPoolExecutor(task["processes"], mp_context=get_context("spawn")) as workers:
            for done, each in enumerate(workers.map(work, units)):
                rows.extend(each)
                print(f"\rrun {done + 1} of {len(units)}", end="", flush=True)
        print()
    found = pd.DataFrame(rows)
    table, ends = kept(task, "rounds") + summarize(found), kept(task, "totals") + totals(found)
    task.table("rounds", table)
    task.table("totals", ends)
    pool, shown = runs.grid(settings), found[found["seed"] == 0]
    most = float(townsend.objective(pool)[townsend.feasible(pool)].max())
    task.figure("rounds", figures.rounds(table, task["temperatures"], task["alpha"], most))
    task.figure("dial", figures.dial(ends, task["alphas"], task["alphas_temperature"]))
    task.figure("aimed", figures.aimed(table, settings, most))
    if {"tethered", "uncontrolled"} <= set(task["arms"]):
        task.figure("townsend", figures.landscape(pool, shown, task.settings))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    for row in ends:
        print(
            f"{row['arm']:19s} temperature {row['temperature']:4g} alpha {row['alpha']:4g}: "
            f"violates in {row['risk']:.3f} ± {row['risk_error']:.3f}, "
            f"best feasible {row['best']:.3f} ± {row['best_error']:.3f}"
        )
    task.close()


if __name__ == "__main__":
    main()
