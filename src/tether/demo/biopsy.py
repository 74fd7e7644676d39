"""The demonstration: whom to send to biopsy, on data that ships with scikit-learn.

A clinic refers almost every patient to biopsy. A model trained on a hundred patients would spare
most of those without cancer, but would also miss cancers. How far may the clinic follow the model
if it tolerates a given number of missed cancers per hundred patients? The question is answered on
many random splits of the Wisconsin breast-cancer data; `run` prints a table and saves a picture.

Sizes, features and tolerated losses were chosen so that the difference is visible: with other
numbers of training patients, the naive threshold exceeds fewer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tether._core import files, progress
from tether._core.types import Booleans, Floats
from tether.demo.biopsy_aim import AIMED_CANDIDATE, PLAIN_CANDIDATE, BiopsyAim
from tether.demo.biopsy_clinic import Clinic, load_patients
from tether.demo.biopsy_outcomes import ALPHAS, NAIVE, Outcome, summarize
from tether.demo.biopsy_picture import draw
from tether.demo.biopsy_table import print_table
from tether.policies.tethered import Tethered

SPLITS = 200

Deployment = tuple[str, float | None, float, float, float]
"""A policy's name and alpha, missed cancers, avoided biopsies, and the stated promise."""


def run(
    out: str | Path = ".",
    *,
    splits: int = SPLITS,
    seed: int = 0,
    show: Callable[[str], object] = print,
    overwrite: bool = False,
) -> list[Outcome]:
    """Run the demonstration, show its table and save `demo.png` in the folder `out`.

    Takes less than two minutes; the same seed gives the same result. An older picture is replaced
    only with `overwrite`. Needs the extra `demo`.
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
    counts: dict[tuple[str, float | None], list[tuple[float, ...]]] = {}
    with progress.step(f"the demonstration: {splits} random splits", splits) as step:
        for split in range(splits):
            clinic = Clinic(features, malignant, np.random.default_rng([seed, split]))
            for name, alpha, *values in _deployments(clinic):
                counts.setdefault((name, alpha), []).append(tuple(values))
            step.advance()
    return [Outcome(name, alpha, *np.array(each).T) for (name, alpha), each in counts.items()]


def _deployments(clinic: Clinic) -> Iterator[Deployment]:
    """Every policy on the held-out patients; NaN for the promise of one that states none."""
    for name, policy in (("safe", clinic.safe), ("optimized", clinic.optimized)):
        yield name, None, *clinic.count_outcomes(clinic.deploy(policy)), np.nan
    aim = BiopsyAim(clinic)
    chosen = aim.choose()
    for alpha in ALPHAS:
        naive = clinic.apply_naive_threshold(alpha)
        yield NAIVE, alpha, *clinic.count_outcomes(naive), np.nan
        candidates = aim.candidates(alpha)
        for name, candidate, family in (
            ("mix", PLAIN_CANDIDATE, "mix"),
            ("clip", PLAIN_CANDIDATE, "clip"),
            ("aimed", AIMED_CANDIDATE, "clip"),
            ("chosen", chosen, "clip"),
        ):
            optimized = candidates[candidate]
            found = clinic.calibrate(optimized, alpha, family)
            actions = clinic.deploy(Tethered(clinic.safe, optimized, found))
            yield f"tether, {name}", alpha, *clinic.count_outcomes(actions), 100 * found.promise
