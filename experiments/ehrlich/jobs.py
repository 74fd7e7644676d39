"""What one process does: prepare a seed's safe policy, or take one run through its rounds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.ehrlich import checkpoint
from experiments.ehrlich import start as starts
from experiments.ehrlich.arms import begin
from experiments.ehrlich.loop import Run


def prepare(settings: Mapping[str, Any], folder: Path, seed: int) -> dict[str, float]:
    """The safe policy of one seed, unless it is there already."""
    path = folder / f"start-{seed}.pt"
    if not path.exists():
        starts.save(starts.prepare(settings, seed), path)
    return starts.load(settings, path).report


def run(
    settings: Mapping[str, Any], folder: Path, until: float, arm: str, alpha: float, seed: int
) -> list[dict[str, Any]]:
    """All rounds of one run, or as many as fit; the rows that it has so far.

    Only runs that calibrate with the models of past rounds are stopped and gone on with; the others
    are short, and begin anew.
    """
    place = folder / f"{arm}-{alpha}-{seed}"
    table = checkpoint.table(place)
    if len(table) > settings["rounds"]:
        return table
    start = starts.load(settings, folder / f"start-{seed}.pt")
    one = begin(start, settings, arm, alpha, seed)
    if isinstance(one, Run):
        one = checkpoint.resume(one, place)
    while len(one.table) <= settings["rounds"] and time.time() < until:
        one.step()
        if isinstance(one, Run):
            checkpoint.save(one, place)
    if len(one.table) > settings["rounds"]:
        if isinstance(one, Run):
            checkpoint.finish(place)
        else:
            checkpoint.save_table(one.table, place)
    return one.table
