"""The demonstration: whom to send to biopsy, on data that ships with scikit-learn.

A clinic refers almost every patient to biopsy. A model trained on a hundred patients would spare
most of those without cancer, but would also miss cancers. How far may the clinic follow the model
if it tolerates a given number of missed cancers per hundred patients? The question is answered on
many random splits of the Wisconsin breast-cancer data; `run` prints a table and saves a picture.

Sizes, features and promises were chosen so that the difference is visible: with other numbers of
training patients, the naive threshold exceeds fewer of the promises.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tether._core import files
from tether._core.types import Booleans, Floats
from tether.demo.biopsy_clinic import Choices, Clinic, load_patients
from tether.demo.biopsy_outcomes import FAMILIES, PROMISES, Outcome, print_table, summarize
from tether.demo.biopsy_picture import draw

SPLITS = 200


def run(
    out: str | Path = ".",
    *,
    splits: int = SPLITS,
    seed: int = 0,
    show: Callable[[str], object] = print,
    overwrite: bool = False,
) -> list[Outcome]:
    """Run the demonstration, show its table and save `demo.png` in the folder `out`.

    Takes about two minutes; the same seed gives the same result. An older picture is replaced only
    with `overwrite`. Needs the extra `demo`.
    """
    if isinstance(splits, bool) or not isinstance(splits, (int, np.integer)) or splits < 2:
        raise ValueError(
            f"splits must be an integer of at least 2, since a standard error is shown, got "
            f"{splits!r}"
        )
    picture = Path(out) / "demo.png"
    picture.parent.mkdir(parents=True, exist_ok=True)
    files.require_target(picture, overwrite=overwrite)
    outcomes = simulate(*load_patients(), splits, seed)
    print_table(outcomes, splits, show)
    for sentence in summarize(outcomes):
        show(sentence)
    draw(outcomes, picture, overwrite=overwrite)
    show(f"Picture: {picture}")
    return outcomes


def simulate(features: Floats, malignant: Booleans, splits: int, seed: int) -> list[Outcome]:
    """Deploy every policy on the held-out patients of every split."""
    counts: dict[tuple[str, float | None], list[tuple[float, float]]] = {}
    for split in range(splits):
        clinic = Clinic(features, malignant, np.random.default_rng([seed, split]))
        for name, promise, actions in _actions_of_all_policies(clinic):
            counts.setdefault((name, promise), []).append(clinic.count_outcomes(actions))
    return [Outcome(name, promise, *np.array(pairs).T) for (name, promise), pairs in counts.items()]


def _actions_of_all_policies(clinic: Clinic) -> list[tuple[str, float | None, Choices]]:
    """The name, the promise and the actions of every policy on the held-out patients."""
    actions: list[tuple[str, float | None, Choices]] = [
        ("safe", None, clinic.deploy(clinic.safe)),
        ("optimized", None, clinic.deploy(clinic.optimized)),
    ]
    for promise in PROMISES:
        actions.append(("naive threshold", promise, clinic.apply_naive_threshold(promise)))
        for family in FAMILIES:
            policy = clinic.tethered(promise, family)
            actions.append((f"tether, {family}", promise, clinic.deploy(policy)))
    return actions
