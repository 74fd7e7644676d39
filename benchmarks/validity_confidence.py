"""Promises with high probability: the share of logs whose deployed risk is above alpha.

Wrong on purpose: the beta of a promise in expectation, presented as one with confidence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

import tether
from benchmarks.prompt_world import ALPHA as PROMPT_ALPHA
from benchmarks.prompt_world import PromptWorld
from benchmarks.shortlist_world import ALPHA as SHORTLIST_ALPHA
from benchmarks.shortlist_world import ShortlistWorld
from benchmarks.validity_promises import calibrated, off_by
from benchmarks.validity_table import Case, Served
from benchmarks.worlds import all_worlds, argmax, safe_risk_alpha

CONFIDENCE = 0.9
TABLED = (  # world, family, rows, runs
    ("Gaussian shift", "clip", 1_000, 400),
    ("Gaussian shift", "mix", 1_000, 400),
    ("heavy tail", "clip", 1_000, 400),
    ("loss in [0, 1]", "clip", 1_000, 400),
    ("unequal contexts, tables", "clip", 1_000, 300),
    ("unequal contexts, tables", "mix", 1_000, 300),
    ("finite actions", "clip", 1_000, 300),
    ("finite actions", "budgeted_clip(3)", 1_000, 200),
    ("two constraints", "clip", 1_000, 200),
    ("two constraints", "mix", 1_000, 300),
    ("Gaussian contexts, draws", "clip", 1_000, 300),
    ("Gaussian contexts, draws", "mix", 1_000, 300),
)


def cases() -> list[Case]:
    """Every kind of log; the same with the beta of the promise in expectation."""
    worlds = {world.name: world for world in reversed(all_worlds())}
    found = []
    for name, family, rows, repeats in TABLED:
        world = replace(worlds[name], rows=rows, name=f"{name}, n = {rows:,}")
        asked = {"alpha": world.alpha, "confidence": CONFIDENCE}
        found.append(_case(world, family, partial(calibrated, world, family, asked), repeats))
        if family == "clip" and name in ("Gaussian shift", "two constraints"):
            run = partial(calibrated, world, family, {"alpha": world.alpha})
            found.append(
                replace(_case(world, f"{family}, in expectation (wrong)", run, 200), wrong=True)
            )
    for world in (argmax(1_000, True), safe_risk_alpha(1_000)):
        asked = {"alpha": world.alpha, "confidence": CONFIDENCE}
        case = _case(world, "clip", partial(calibrated, world, "clip", asked), 300)
        found.append(replace(case, at_alpha="alpha" in world.name))
    gaussian = replace(worlds["Gaussian shift"], rows=1_000)
    for family in ("clip", "mix"):
        named = replace(gaussian, name="Gaussian shift, scores × 1.2")
        run = partial(off_by, gaussian, family, 1.2, 1.2, confidence=CONFIDENCE)
        found.append(_case(named, f"{family}, ratio_error", run, 300))
    for world, alpha, repeats in (
        (PromptWorld(1_000, 4, fresh=True), PROMPT_ALPHA, 200),
        (PromptWorld(20_000, 2, fresh=True), PROMPT_ALPHA, 50),
        (ShortlistWorld(1_000, 4), SHORTLIST_ALPHA, 300),
        (ShortlistWorld(1_000, 16), SHORTLIST_ALPHA, 200),
    ):
        found.append(
            Case(
                world.name,
                f"clip, {CONFIDENCE:.0%}",
                {"loss": alpha},
                partial(_certified, world, alpha),
                repeats,
                confidence=CONFIDENCE,
            )
        )
    return found


def _case(world, procedure: str, run, repeats: int) -> Case:
    name = procedure if "wrong" in procedure else f"{procedure}, {CONFIDENCE:.0%}"
    return Case(world.name, name, world.alpha, run, repeats, 20, confidence=CONFIDENCE)


def _certified(
    world: PromptWorld | ShortlistWorld, alpha: float, rng: np.random.Generator
) -> list[Served]:
    collected = world.collect(rng)
    parts = collected if isinstance(collected, tuple) else (collected,)
    return world.served(tether.calibrate(*parts, alpha=alpha, confidence=CONFIDENCE))
