"""Shortlists of several sizes, with short and with long logs.

Wrong on purpose: positions whose scores are those of other candidates, as if the logged action had
not been among them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import tether
from benchmarks.shortlist_world import ALPHA, ShortlistWorld
from benchmarks.validity_table import Case, Served

FAMILIES = ("clip", "mix", "budgeted_clip(4)")
SIZES = (2, 4, 16)


def cases() -> list[Case]:
    """Every size and family; one kind of wrong candidates."""
    found = []
    for rows, repeats in ((50, 1000), (5_000, 100)):
        for size in SIZES:
            world = ShortlistWorld(rows, size)
            for family in FAMILIES:
                run = partial(calibrated, world, family)
                found.append(Case(world.name, family, {"loss": ALPHA}, run, repeats, 40))
            if rows > 1000:
                run = partial(shifted, world)
                name = "clip, shifted scores (wrong)"
                found.append(Case(world.name, name, {"loss": ALPHA}, run, 20, 5, wrong=True))
    return found


def calibrated(world: ShortlistWorld, family: str, rng: np.random.Generator) -> list[Served]:
    """One run of the package."""
    return world.served(tether.calibrate(world.collect(rng), alpha=ALPHA, family=family))


def shifted(world: ShortlistWorld, rng: np.random.Generator) -> list[Served]:
    """The same with the scores of the next position for every candidate."""
    log = world.collect(rng)
    table = np.roll(log.log_optimized_all, 1, axis=1)
    wrong = tether.Log(
        log.loss,
        log.log_safe,
        table[:, 0],
        log_safe_all=log.log_safe_all,
        log_optimized_all=table,
    )
    return world.served(tether.calibrate(wrong, alpha=ALPHA))
