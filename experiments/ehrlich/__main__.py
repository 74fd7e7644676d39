"""Run the experiment: `python -m experiments.ehrlich`, with `--quick` for a small one on a CPU."""

from __future__ import annotations

import json
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


def begin(settings: Mapping[str, Any], seed: int) -> Start:
    """The safe policy of a seed, with its model where other processes can read it."""
    if settings["workers"] > 1:
        torch.set_num_threads(1)
    start = prepare(settings, seed)
    start.model.cpu()
    return start


def one_run(settings: Mapping[str, Any], job: tuple[Start, Mapping[str, Any]]) -> list[dict]:
    """The rounds of one arm at one alpha."""
    if settings["workers"] > 1:
        torch.set_num_threads(1)
    start, labels = job
    start.model.to(find_device(settings["device"]))
    run = ARMS[labels["arm"]](start, settings, labels)
    for _ in range(settings["rounds"] + 1):
        run.step()
    shown = (f"{key} {run.table[-1][key]:.3f}" for key in ("infeasible", "objective", "best"))
    print(*labels.values(), *shown, flush=True)
    return run.table


def main(arguments: Sequence[str] | None = None) -> None:
    """The whole experiment; one that was cut short goes on with the arms that are missing."""
    task = harness.begin(__file__, arguments)
    settings, seeds = dict(task.settings), task.settings["seeds"]
    starts = list(harness.each(settings["workers"], partial(begin, settings), seeds))
    unfinished = task.out / "unfinished.json"
    rows = json.loads(unfinished.read_text(encoding="utf-8")) if unfinished.exists() else []
    known = [{key: row[key] for key in LABELS} for row in rows]
    jobs = [
        (start, labels)
        for base, arms in settings["arms"].items()
        for arm, alphas in arms.items()
        for alpha in alphas
        for start, seed in zip(starts, seeds, strict=True)
        if (labels := dict(zip(LABELS, (base, arm, alpha, seed), strict=True))) not in known
    ]
    for made in harness.each(settings["workers"], partial(one_run, settings), jobs):
        rows += made
        unfinished.write_text(json.dumps(rows), encoding="utf-8")
    columns = dict.fromkeys(key for row in rows for key in row)
    rows = [{key: row.get(key, float("nan")) for key in columns} for row in rows]
    task.table("safe", [start.report for start in starts])
    task.table("rounds", rows)
    table = report.overview(rows)
    task.table("overview", [{key: row.get(key, float("nan")) for key in table[0]} for row in table])
    report.draw(task, rows)
    unfinished.unlink(missing_ok=True)
    task.close()


if __name__ == "__main__":
    from experiments.ehrlich import __main__ as named  # as other processes import it

    named.main()
