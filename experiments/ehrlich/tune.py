"""How the settings were chosen: `python -m experiments.ehrlich.tune`, on seed 100.

Ways of training the safe policy, to `tune_safe.csv`, and ways of DPO, to `tune.csv`, one row a
round. The seed is none of the experiment's.
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
SAFE: dict[str, dict[str, Any]] = {
    "base": {},
    "short": {"sft_epochs": 10},
    "few": {"pairs": 20000},
}
DPO = [
    {"dpo_from": "last", "infeasible_pairs": pairs, "dpo_rate": rate, "alpha": 1.0}
    for pairs in (False, True)
    for rate in (3e-6, 1e-5, 3e-5, 1e-4)
] + [
    {"dpo_from": start, "infeasible_pairs": False, "dpo_rate": 1e-5, "alpha": alpha}
    for start in ("last", "served")
    for alpha in (0.3, 0.6, 0.9)
]


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


def prepare(settings: Mapping[str, Any], folder: Path, name: str) -> dict[str, Any]:
    """One way of training the safe policy, and what is known of it."""
    settings, path = dict(settings) | SAFE[name], folder / f"{name}.pt"
    if not path.exists():
        starts.save(starts.prepare(settings, SEED), path)
    return {"safe": name, **starts.load(settings, path).report}


def improve(
    settings: Mapping[str, Any], folder: Path, chosen: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The rounds with one way of DPO."""
    start = starts.load(settings, folder / "base.pt")
    run = Run.begin(start, dict(settings) | chosen, "clip", chosen["alpha"], SEED)
    for _ in range(settings["rounds"] + 1):
        run.step()
    return [{**chosen, **row} for row in run.table]


def _shown(rows: list[dict[str, Any]]) -> str:
    keys = (
        "infeasible",
        "unread",
        "objective",
        "best",
        "drift",
        "log_beta",
        "allowed",
        "draws",
        "seconds",
    )
    parts = [f"{key}=[{', '.join(f'{row.get(key, 0):.3g}' for row in rows)}]" for key in keys]
    first = {key: rows[0][key] for key in DPO[0]}
    return f"{first} {' '.join(parts)}"


def main() -> None:
    """All of them, side by side."""
    task = harness.begin(__file__)
    settings = dict(task.settings)
    if settings["workers"] == 1:
        speed(settings)
    folder = task.out / "checkpoints"
    folder.mkdir(exist_ok=True, parents=True)
    safe = list(
        pool.each(settings["workers"], prepare, [(settings, folder, name) for name in SAFE])
    )
    task.table("tune_safe", safe)
    print(*safe, sep="\n", flush=True)
    jobs = [(settings, folder, chosen) for chosen in DPO]
    columns = tuple(dict.fromkeys((*DPO[0], *report.COLUMNS)))
    table: list[dict[str, Any]] = []
    for rows in pool.each(settings["workers"], improve, jobs):
        print(_shown(rows), flush=True)
        table += [{key: row.get(key, np.nan) for key in columns} for row in rows]
    task.table("tune", report.merged([], table, (*DPO[0], "round")))


if __name__ == "__main__":
    main()
