"""Run the experiment: `python -m experiments.ehrlich`, with `--quick` for a small one on a CPU.

A full run keeps what `results/rounds.csv` has, and runs what is missing: one that was cut short
goes on, and `--set` adds seeds or arms. To begin anew, choose another folder with `--out`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from experiments import harness
from experiments.ehrlich import report
from experiments.ehrlich.rounds import RampRun, Run
from experiments.ehrlich.start import Start, find_device, prepare
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
LABELS = ("dpo_from", "arm", "alpha", "seed")


def share_the_machine(settings: Mapping[str, Any]) -> None:
    """One thread for each process, and TF32 on a GPU, in drawing and scoring alike."""
    if settings["workers"] > 1:
        torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")


def begin(settings: Mapping[str, Any], seed: int) -> Start:
    """The safe policy of a seed, with its model where other processes can read it."""
    share_the_machine(settings)
    start = prepare(settings, seed)
    start.model.cpu()
    return start


def one_run(settings: Mapping[str, Any], job: tuple[Start, Mapping[str, Any]]) -> list[dict]:
    """The rounds of one arm at one alpha."""
    share_the_machine(settings)
    start, labels = job
    start.model.to(find_device(settings["device"]))
    run = ARMS[labels["arm"]](start, settings, labels)
    for _ in range(settings["rounds"] + 1):
        run.step()
    shown = (f"{key} {run.table[-1][key]:.3f}" for key in ("infeasible", "objective", "best"))
    print(*labels.values(), *shown, flush=True)
    return run.table


def known(task: harness.Task, name: str) -> list[dict[str, Any]]:
    """The rows of a table as the last run left it; a quick run begins anew."""
    path = task.out / f"{name}.csv"
    if task.quick or not path.exists():
        return []
    types = {"dpo_from": str, "arm": str, "seed": int, "round": int}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            {key: types.get(key, float)(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Every arm, alpha and seed that is missing, then the tables and the figure of all of them."""
    task = harness.begin(__file__, arguments)
    settings, rows = dict(task.settings), known(task, "rounds")
    done = [{key: row[key] for key in LABELS} for row in rows if row["round"] == 0]
    wanted = [
        labels
        for base, arms in settings["arms"].items()
        for seed in settings["seeds"]
        for arm, alphas in arms.items()
        for alpha in alphas
        if (labels := dict(zip(LABELS, (base, arm, alpha, seed), strict=True))) not in done
    ]
    seeds = sorted({labels["seed"] for labels in wanted})
    made = harness.each(settings["workers"], partial(begin, settings), seeds)
    starts = dict(zip(seeds, made, strict=True))
    safe = [row for row in known(task, "safe") if row["seed"] not in starts]
    safe += [start.report for start in starts.values()]
    task.table("safe", sorted(safe, key=lambda row: row["seed"]))
    jobs = [(starts[labels["seed"]], labels) for labels in wanted]
    for table in harness.each(settings["workers"], partial(one_run, settings), jobs):
        rows += table
        columns = dict.fromkeys(key for row in rows for key in row)
        rows = [{key: row.get(key, float("nan")) for key in columns} for row in rows]
        task.table("rounds", rows)
    overview = report.overview(rows)
    columns = list(overview[0])
    task.table(
        "overview", [{key: row.get(key, float("nan")) for key in columns} for row in overview]
    )
    report.draw(task, rows)
    task.close()


if __name__ == "__main__":
    from experiments.ehrlich import __main__ as named  # as other processes import it

    named.main()
