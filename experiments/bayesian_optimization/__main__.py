"""Bayesian optimization on a tether: `python -m experiments.bayesian_optimization`.

The Townsend function is optimized where feasibility is unknown, learned from yes and no alone.
Candidates form a finite pool, so every policy here, tethered ones of past rounds included, has
exact probabilities, and the risk of what is deployed is a sum and not an estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from experiments import harness
from experiments.bayesian_optimization import figures, runs, townsend

RUN = ["arm", "temperature", "alpha"]


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


def totals(found: pd.DataFrame, early: int) -> list[dict[str, Any]]:
    """Each run over all its rounds: its mean risk, and the best value early and at the end.

    `lead` is the best value of a tethered run less that of the uncontrolled one that learns in the
    same way, paired over seeds.
    """
    rows = []
    after = found[found["round"] > 0]
    for key, group in after.groupby(RUN, sort=False, dropna=False):
        row = dict(zip(RUN, key, strict=True)) | {"seeds": group["seed"].nunique()}
        per_seed = group.groupby("seed")["risk"].mean()
        row["risk"], row["risk_error"] = harness.mean_and_error(per_seed)
        row["worst_round"] = float(group.groupby("round")["risk"].mean().max())
        controlled = row["arm"].startswith("tethered")
        row["holds_alpha"] = holds_alpha(group, row["alpha"]) if controlled else ""
        rival = row["arm"].replace("tethered", "uncontrolled")
        same = (after["arm"] == rival) & (after["temperature"] == row["temperature"])
        last = int(group["round"].max())
        for name, number in (("early", min(early, last)), ("best", last)):
            mine = group[group["round"] == number].set_index("seed")["best"]
            row[name], row[f"{name}_error"] = harness.mean_and_error(mine)
            other = after[same & (after["round"] == number)].set_index("seed")["best"]
            lead = harness.paired(dict(mine), dict(other)) if controlled and len(other) else {}
            row[f"{name}_lead"] = lead.get("difference", "")
            row[f"{name}_lead_error"] = lead.get("difference_error", "")
        rows.append(row)
    return rows


def holds_alpha(group: pd.DataFrame, alpha: float) -> bool:
    """Whether the mean risk of every round is within three standard errors of alpha."""
    rounds = group.groupby("round")["risk"]
    return bool((rounds.mean() <= alpha + 3 * rounds.sem(ddof=1)).all())


def main(arguments: Sequence[str] | None = None) -> None:
    task = harness.begin(__file__, arguments)
    settings = {key: value for key, value in task.settings.items() if key != "processes"}
    units = [(arm, seed) for arm in runs.arms(settings) for seed in range(settings["seeds"])]
    work = partial(runs.one_run, settings)
    done = harness.each(task["processes"], work, units)
    found = pd.DataFrame([row for rows in done for row in rows])
    table, ends = summarize(found), totals(found, task["early_round"])
    task.table("rounds", table)
    task.table("totals", ends)
    pool, shown = runs.grid(settings), found[found["seed"] == 0]
    most = float(townsend.objective(pool)[townsend.feasible(pool)].max())
    task.figure("rounds", figures.rounds(table, task["temperatures"], task["alpha"], most))
    task.figure("dial", figures.dial(ends, task["alphas"], task["alphas_temperature"]))
    task.figure("townsend", figures.landscape(pool, shown, task.settings))
    for row in ends:
        print(
            f"{row['arm']:21s} temperature {row['temperature']:4g} alpha {row['alpha']:4g}: "
            f"violates in {row['risk']:.3f} ± {row['risk_error']:.3f}, best feasible early "
            f"{row['early']:.3f} ± {row['early_error']:.3f}, at the end {row['best']:.3f} ± "
            f"{row['best_error']:.3f}"
        )
    task.close()


if __name__ == "__main__":
    main()
