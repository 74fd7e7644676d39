"""How the learning rates were chosen: `python -m experiments.ehrlich.tune`, on seed 100.

Each way of training the safe policy, with each rate of DPO: a few rounds without control and a few
at alpha 0.5. Written to `tune.csv`, one row a round. The seed is none of the experiment's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
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
    "feasible pairs": {"infeasible_pairs": False},
}
RATES = (1e-5, 3e-5, 1e-4, 3e-4)


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


def one(settings: Mapping[str, Any], name: str, rate: float) -> list[dict[str, Any]]:
    """The rounds of one way of training, and of the safe policy it starts with."""
    settings = dict(settings) | SAFE[name] | {"dpo_rate": rate}
    start = starts.prepare(settings, SEED)
    rows = []
    for alpha in (1.0, 0.5):
        run = Run.begin(start, settings, "clip", alpha, SEED)
        for _ in range(ROUNDS + 1):
            run.step()
        for row in run.table:
            told = {f"start_{key}": value for key, value in start.report.items()}
            rows.append({"safe": name, "dpo_rate": rate, **row, **told})
    return rows


def _line(rows: list[dict[str, Any]], alpha: float) -> str:
    mine = [row for row in rows if row["alpha"] == alpha]
    keys = ("infeasible", "objective", "best")
    keys += () if alpha == 1 else ("optimized_infeasible", "log_beta", "draws", "effective")
    parts = [f"{key}=[{', '.join(f'{row.get(key, 0):.3g}' for row in mine)}]" for key in keys]
    seconds = sum(row["seconds"] for row in mine) / len(mine)
    return f"  alpha {alpha}: {' '.join(parts)} seconds a round={seconds:.2f}"


def main() -> None:
    """All of them, side by side."""
    task = harness.begin(__file__)
    settings = dict(task.settings)
    speed(settings)
    jobs = [(settings, name, rate) for name in SAFE for rate in RATES]
    table: list[dict[str, Any]] = []
    for rows in pool.each(settings["workers"], one, jobs):
        told = [f"{key}={rows[0][key]:.4g}" for key in rows[0] if key.startswith("start_")]
        print(rows[0]["safe"], f"dpo_rate={rows[0]['dpo_rate']:g}", *told)
        print(_line(rows, 1.0), _line(rows, 0.5), sep="\n", flush=True)
        table += rows
    told = [key for key in table[0] if key.startswith("start_")]
    columns = ("safe", "dpo_rate", *report.COLUMNS, *told)
    task.table("tune", [{key: row.get(key, np.nan) for key in columns} for row in table])


if __name__ == "__main__":
    main()
