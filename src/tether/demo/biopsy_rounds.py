"""The demonstration over several rounds: the same clinic, with a model that learns.

Patients are random draws from the Wisconsin breast-cancer data. The first round uses the safe
policy. After each round the model is retrained on the training rows alone, and `Controller` finds
how far the clinic may follow it. The run is kept in a store, with its report next to it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tether._core import files
from tether.demo.biopsy_clinic import (
    WATCH,
    load_patients,
    make_optimized_policy,
    make_safe_policy,
    train_score,
)
from tether.policies.policy import Policy
from tether.report import write
from tether.rounds import Controller, RoundRecord

ROUND_PROMISE = 0.08
"""Missed cancers tolerated per patient."""
ROUNDS, PATIENTS_PER_ROUND = 6, 300


def run_rounds(
    out: str | Path = ".",
    *,
    seed: int = 0,
    show: Callable[[str], object] = print,
    overwrite: bool = False,
) -> tuple[RoundRecord, ...]:
    """Run the rounds, show a line for each, and save `demo.db` and `report.html` in `out`.

    There must be no `demo.db` yet: a store is never replaced. An older report is replaced only with
    `overwrite`.
    """
    store, report = require_new_store(out), Path(out) / "report.html"
    files.require_target(report, overwrite=overwrite)
    features, malignant = load_patients()
    rng = np.random.default_rng([seed, 569])
    safe = make_safe_policy()
    optimized: Policy | None = None
    diagnoses: dict[int, bool] = {}  # by the id of the action, as known to the clinic afterwards
    show(
        f"{ROUNDS} rounds of {PATIENTS_PER_ROUND} patients, tolerating {100 * ROUND_PROMISE:g} "
        "missed cancers in 100:"
    )
    with Controller(
        safe, promise=ROUND_PROMISE, store=store, name="refer nine in ten"
    ) as controller:
        for number in range(1, 1 + ROUNDS):
            patients = rng.integers(len(features), size=PATIENTS_PER_ROUND)
            name = None if optimized is None else f"model {number}"
            round_ = controller.begin(optimized, name=name)
            taken = round_.act(features[patients], rng)
            watched = taken.actions == WATCH
            missed, avoided = watched & malignant[patients], watched & ~malignant[patients]
            round_.observe(taken.ids, missed.astype(float), avoided.astype(float))
            diagnoses.update(zip(taken.ids.tolist(), malignant[patients].tolist(), strict=True))
            show(
                f"  round {number}: beta {round_.beta:7.3g}   cancers missed "
                f"{100 * missed.mean():4.1f}   needless biopsies avoided "
                f"{100 * avoided.mean():4.1f}   (of 100)"
            )
            rows = controller.training_rows()
            known = np.array([diagnoses[action_id] for action_id in rows.ids.tolist()])
            optimized = make_optimized_policy(train_score(rows.contexts, known), safe)
        history = controller.history()
    write(history, report, overwrite=overwrite)
    show(f"Store:  {store}   (tether status {store})")
    show(f"Report: {report}")
    return history.rounds


def require_new_store(out: str | Path) -> Path:
    """The path of the store in a folder, which is made if there is none; raise if it exists."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "demo.db"
    if store.exists():
        raise FileExistsError(
            f"{store} exists, and a store is never overwritten: delete it, or name another folder"
        )
    return store
