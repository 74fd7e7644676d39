"""The ways of optimizing and of controlling that are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.ehrlich.free import FreeRun
from experiments.ehrlich.loop import Run
from experiments.ehrlich.ramp import RampRun
from experiments.ehrlich.start import Start


@dataclass(frozen=True)
class Arm:
    """An optimizer and a family of controlled policies."""

    family: str
    strong: bool = False
    """Whether the optimizer is the strong one."""
    aims: bool = False
    """Whether its policies avoid what training rows make suspect."""


ARMS = {
    "clip": Arm("clip"),
    "mix": Arm("mix"),
    "strong_clip": Arm("clip", strong=True),
    "ramp": Arm("ramp", strong=True),
    "aimed_ramp": Arm("ramp", strong=True, aims=True),
}
"""At an alpha of 1, each is its optimizer without control."""


def planned(settings: Mapping[str, Any]) -> Iterator[tuple[str, float, int]]:
    """Every (arm, alpha, seed)."""
    for arm in ARMS:
        for seed in settings["seeds"]:
            yield from ((arm, alpha, seed) for alpha in settings[f"{arm}_alphas"])


def begin(
    start: Start, settings: Mapping[str, Any], arm: str, alpha: float, seed: int
) -> Run | RampRun | FreeRun:
    """A run of an arm, before its first round."""
    made = ARMS[arm]
    if made.strong:
        settings = {**settings, "infeasible_pairs": True, "dpo_rate": settings["strong_dpo_rate"]}
    if made.family != "ramp":
        return Run.begin(start, settings, made.family, alpha, seed, arm)
    if alpha >= 1:
        return FreeRun(start, settings, arm, seed, aims=made.aims)
    return RampRun(start, settings, arm, alpha, seed, aims=made.aims)
