"""How the learning rates were chosen: `python -m experiments.ehrlich.tune`, on seed 100.

Each way of training the safe policy, with each rate of DPO: a few rounds without control. Written
to `tune.csv`, one row a round. The seed is none of the experiment's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments import harness
from experiments.ehrlich import pool, report
from experiments.ehrlich import start as starts
from experiments.ehrlich.loop import Run

SEED = 100
ROUNDS = 8
SAFE: dict[str, dict[str, Any]] = {
    "base": {},
    "short": {"sft_epochs": 5},
    "closest": {"closest": True},
}
PAIRS = (("base", True), ("base", False), ("closest", True), ("closest", False))
"""Which safe policy, and whether an infeasible action may be the worse of a pair."""
RATES = (3e-5, 1e-4, 3e-4, 1e-3)


def speed(settings: Mapping[str, Any]) -> None:
    """What drawing and scoring cost, with a model that has not learned anything."""
    fresh = dict(settings) | {"pairs": 256, "sft_epochs": 1, "stock": 16, "particles": 2000}
    policy = starts.prepare(fresh, SEED).safe.policy
    rng = np.random.default_rng(0)
    for count in (512, 512, 4096, 4096):
        began = time.time()
        actions = policy.sample(count, rng)
        drawn = time.time()
        policy.log_prob(None, actions)
        each = (time.time() - drawn) / count / len(policy.seeds)
        print(
            f"{count} draws: {drawn - began:.3f} s; scores: {1e6 * each:.2f} µs a prompt and draw"
        )


def prepare(settings: Mapping[str, Any], folder: Path, name: str) -> None:
    """One way of training the safe policy."""
    if not (folder / f"{name}.pt").exists():
        starts.save(starts.prepare(dict(settings) | SAFE[name], SEED), folder / f"{name}.pt")


def one(
    settings: Mapping[str, Any], folder: Path, name: str, infeasible: bool, rate: float
) -> list[dict[str, Any]]:
    """The rounds of one way of training, with what is known of the safe policy beside them."""
    settings = dict(settings) | {"infeasible_pairs": infeasible, "dpo_rate": rate}
    start = starts.load(settings, folder / f"{name}.pt")
    told = {f"start_{key}": value for key, value in start.report.items()}
    run = Run.begin(start, settings, "clip", 1.0, SEED)
    for _ in range(ROUNDS + 1):
        run.step()
    first = {"safe": name, "infeasible_pairs": infeasible, "dpo_rate": rate}
    return [{**first, **row, **told} for row in run.table]


def _line(rows: list[dict[str, Any]]) -> str:
    keys = ("infeasible", "objective", "best", "distinct")
    parts = [f"{key}=[{', '.join(f'{row.get(key, 0):.3g}' for row in rows)}]" for key in keys]
    seconds = sum(row["seconds"] for row in rows) / len(rows)
    return f"  {' '.join(parts)} seconds a round={seconds:.2f}"


def main() -> None:
    """All of them, side by side."""
    task = harness.begin(__file__)
    settings = dict(task.settings)
    if settings["workers"] == 1:
        speed(settings)
    folder = task.out / "checkpoints"
    folder.mkdir(exist_ok=True)
    list(pool.each(settings["workers"], prepare, [(settings, folder, name) for name in SAFE]))
    jobs = [(settings, folder, *pair, rate) for pair in PAIRS for rate in RATES]
    table: list[dict[str, Any]] = []
    for rows in pool.each(settings["workers"], one, jobs):
        first = rows[0]
        told = [f"{key[6:]}={first[key]:.4g}" for key in first if key.startswith("start_")]
        print(f"{first['safe']}, infeasible pairs {first['infeasible_pairs']}, ", end="")
        print(f"DPO {first['dpo_rate']:g}:", *told)
        print(_line(rows), flush=True)
        table += rows
    told = [key for key in table[0] if key.startswith("start_")]
    columns = ("safe", "infeasible_pairs", "dpo_rate", *report.COLUMNS, *told)
    task.table("tune", [{key: row.get(key, np.nan) for key in columns} for row in table])


if __name__ == "__main__":
    main()
