"""Run the experiment: `python -m experiments.ehrlich`, with `--quick` for a small one on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from experiments import harness
from experiments.ehrlich import report
from experiments.ehrlich.rounds import RampRun, Run
from experiments.ehrlich.start import prepare
from experiments.ehrlich.weighted import WeightedRun

ARMS = {
    "clip": WeightedRun,
    "mix": WeightedRun,
    "ramp": RampRun,
    "aimed_ramp": RampRun,
    "free": Run,
    "aimed_free": Run,
}
"""Those without control, `free`, tolerate every loss: their alpha is 1."""


def one_seed(settings: Mapping[str, Any], seed: int) -> tuple[dict[str, float], list[dict]]:
    """The safe policy of a seed, and the rounds of every arm at every alpha."""
    if settings["workers"] > 1:
        torch.set_num_threads(1)
    start, rows = prepare(settings, seed), []
    for arm, kind in ARMS.items():
        for alpha in settings["alphas"].get(arm, []):
            run = kind(start, settings, arm, alpha, seed)
            for _ in range(settings["rounds"] + 1):
                run.step()
            rows += run.table
            last = run.table[-1]
            shown = ("infeasible", "objective", "best")
            print(arm, alpha, seed, *(f"{key} {last[key]:.3f}" for key in shown), flush=True)
    return start.report, rows


def main(arguments: Sequence[str] | None = None) -> None:
    """The whole experiment."""
    task = harness.begin(__file__, arguments)
    settings = dict(task.settings)
    safe, rows = [], []
    work = partial(one_seed, settings)
    for found, made in harness.each(settings["workers"], work, settings["seeds"]):
        safe.append(found)
        rows += made
    rows.sort(key=lambda row: (row["arm"], row["alpha"], row["seed"], row["round"]))
    columns = dict.fromkeys(key for row in rows for key in row)
    rows = [{key: row.get(key, float("nan")) for key in columns} for row in rows]
    task.table("safe", sorted(safe, key=lambda row: row["seed"]))
    task.table("rounds", rows)
    table = report.overview(rows)
    task.table("overview", [{key: row.get(key, float("nan")) for key in table[0]} for row in table])
    report.draw(task, rows)
    task.close()


if __name__ == "__main__":
    from experiments.ehrlich import __main__ as named  # as other processes import it

    named.main()
