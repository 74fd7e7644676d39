"""How the settings of ramps were chosen: `python -m experiments.ehrlich.tune_ramp`.

Ways of ramping and aiming, to `tune_ramp.csv`, one row a way, alpha and seed: means over the last
quarter of the rounds. The seeds are none of the experiment's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments import harness
from experiments.ehrlich import pool
from experiments.ehrlich import start as starts
from experiments.ehrlich.arms import begin
from experiments.ehrlich.jobs import prepare

SEEDS = (100, 101, 102, 103)
WAYS: dict[str, dict[str, Any]] = {
    "base": {},
    "impatient": {"ramp_patience": 4},
    "patient": {"ramp_patience": 16},
    "long steps": {"ramp_steps": 2},
    "short steps": {"ramp_steps": 8, "ramp_patience": 16},
    "16 draws": {"aimed_draws": 16},
    "32 draws": {"aimed_draws": 32},
    "32 draws, impatient": {"aimed_draws": 32, "ramp_patience": 4},
    "32 draws, calibrate less": {"aimed_draws": 32, "ramp_calibration_share": 0.3},
    "slow": {"strong_dpo_rate": 5e-5},
    "fast": {"strong_dpo_rate": 2e-4},
    "more pairs": {"triplets": 1024},
}
"""Changes to the base: 8 draws, and half of all rows for calibration."""
BASE = {"aimed_draws": 8, "ramp_calibration_share": 0.5}
ALPHAS = (0.1, 0.3, 0.6)


def late(
    settings: Mapping[str, Any], folder: Path, way: str, arm: str, alpha: float, seed: int
) -> dict[str, Any]:
    """The rounds of one run, and what their last quarter was like."""
    start = starts.load(settings, folder / f"start-{seed}.pt")
    run = begin(start, {**settings, **BASE, **WAYS[way]}, arm, alpha, seed)
    for _ in range(settings["rounds"] + 1):
        run.step()
    last = run.table[-(settings["rounds"] // 4) :]
    row: dict[str, Any] = {"way": way, "arm": arm, "alpha": alpha, "seed": seed}
    for key in ("objective", "infeasible", "share", "distinct"):
        row[key] = float(np.mean([each.get(key, np.nan) for each in last]))
    row["worst"] = max(each["infeasible"] for each in run.table[1:])
    row["improved"] = sum("dpo_loss" in each for each in run.table)
    row["best"] = last[-1]["best"]
    row["seconds"] = sum(each["seconds"] for each in run.table)
    return row


def main() -> None:
    """All of them, side by side."""
    task = harness.begin(__file__)
    settings = dict(task.settings)
    folder = task.out / "checkpoints"
    folder.mkdir(exist_ok=True, parents=True)
    list(pool.each(settings["workers"], prepare, [(settings, folder, seed) for seed in SEEDS]))
    jobs = [(settings, folder, "base", "aimed_ramp", 1.0, seed) for seed in SEEDS]
    jobs += [
        (settings, folder, "base", "ramp", alpha, seed) for alpha in (0.3, 1.0) for seed in SEEDS
    ]
    jobs += [
        (settings, folder, way, "aimed_ramp", alpha, seed)
        for way in WAYS
        for alpha in ALPHAS
        for seed in SEEDS
    ]
    rows = []
    for row in pool.each(settings["workers"], late, jobs):
        print(" ".join(f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
                       for key, value in row.items()), flush=True)  # fmt: skip
        rows.append(row)
        task.table("tune_ramp", rows)


if __name__ == "__main__":
    main()
