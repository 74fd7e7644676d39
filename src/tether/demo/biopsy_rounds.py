"""The demonstration goes on: the same clinic, round after round, with a model that learns.

Patients come as random draws from the Wisconsin breast-cancer data. The first round is the safe
policy's. After each round the model is trained anew on the training rows alone, and `Controller`
finds how far the clinic may follow it. The run stays in a store, with its report beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core.types import Floats
from tether.demo.biopsy import BOLDNESS, NOISE, REFER, WATCH, WATCHED, patients, trained_score
from tether.policies.categorical import Categorical
from tether.policies.mixture import Mixture
from tether.policies.policy import Policy
from tether.report import write
from tether.rounds import Controller, RoundRecord

ALPHA, ROUNDS, BATCH = 0.05, 6, 300
"""Missed cancers tolerated for each patient, rounds, and patients in a round."""


def run_rounds(
    out: str | Path = ".", *, seed: int = 0, show: Callable[[str], Any] = print
) -> tuple[RoundRecord, ...]:
    """Run the rounds, print a line for each, and save `demo.db` and `report.html` in `out`.

    An older `demo.db` there is replaced.
    """
    features, malignant = patients()
    rng = np.random.default_rng([seed, 569])
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "demo.db"
    for old in folder.glob("demo.db*"):
        old.unlink()
    safe = Categorical.from_probabilities([WATCHED, 1 - WATCHED], actions=[WATCH, REFER])
    optimized: Policy | None = None
    diagnosis: dict[int, bool] = {}  # what biopsies and time have told the clinic
    show(f"{ROUNDS} rounds of {BATCH} patients, tolerating {100 * ALPHA:g} missed cancers in 100:")
    with Controller(safe, alpha=ALPHA, store=store, name="refer nine in ten") as run:
        for number in range(1, 1 + ROUNDS):
            who = rng.integers(len(features), size=BATCH)
            round_ = run.begin(optimized, name=None if optimized is None else f"model {number}")
            taken = round_.act(features[who], rng)
            watched = taken.actions == WATCH
            missed, spared = watched & malignant[who], watched & ~malignant[who]
            round_.observe(taken.ids, missed.astype(float), spared.astype(float))
            diagnosis.update(zip(taken.ids.tolist(), malignant[who].tolist(), strict=True))
            show(
                f"  round {number}: beta {round_.beta:7.3g}   cancers missed "
                f"{100 * missed.mean():4.1f}   needless biopsies avoided "
                f"{100 * spared.mean():4.1f}   (of 100)"
            )
            rows = run.training_rows()
            known = np.array([diagnosis[number] for number in rows.ids.tolist()])
            optimized = model(rows.contexts, known, safe)
        found = run.history()
    report = folder / "report.html"
    write(found, report)
    show(f"Store:  {store}   (tether status {store})")
    show(f"Report: {report}")
    return found.rounds


def model(features: Floats, malignant: NDArray[np.bool_], safe: Policy) -> Policy:
    """The policy of a model trained on these patients, with a little of the safe one in it."""
    score = trained_score(features, malignant)
    bold = Categorical.from_logits(
        lambda x: np.column_stack([np.zeros(len(x)), (score(x) - BOLDNESS) / NOISE]),
        actions=[WATCH, REFER],
    )
    return Mixture.blend(bold, safe, safe_share=0.02)
