"""Running the seeds of a design, some at a time, and keeping what is done."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.active_learning import learner, worlds
from experiments.harness import Task

BLOCK = 5
"""How many seeds are run and kept together."""


@dataclass(frozen=True, eq=False)
class Case:
    """A design on one data set at one alpha; `settings` are all that a learner needs."""

    design: str
    name: str
    alpha: float
    gamma: float
    methods: tuple[str, ...]
    seeds: int
    settings: Mapping[str, Any]

    @property
    def rank(self) -> int:
        """What is run first: the printed design, the paper's alpha, variants, the others."""
        if self.design == "held":
            return 1 if self.alpha == 0.2 else 3
        return {"printed": 0, "variants": 2, "steeper": 3, "aimed": 4}[self.design]

    @property
    def title(self) -> str:
        """What to call it, also as a file: anything that changes it changes the last part."""
        stated = json.dumps([self.gamma, self.methods, dict(self.settings)], sort_keys=True)
        mark = hashlib.sha256(stated.encode()).hexdigest()[:10]
        return f"{self.design}-{self.name}-{self.alpha:g}-{mark}"


def cases(task: Task) -> Iterator[Case]:
    """Every design of the settings, on each of its data sets, at each of its alphas."""
    shared = {key: value for key, value in task.settings.items() if not isinstance(value, dict)}
    for design, table in task["designs"].items():
        if task["only"] and design not in task["only"]:
            continue
        chosen = shared | table
        for name, gamma in table["gamma"].items():
            for alpha in chosen["alphas"]:
                left_out = ("alphas", "gamma", "methods", "seeds", "processes", "only_kept", "only")
                settings = {key: value for key, value in chosen.items() if key not in left_out}
                methods, seeds = tuple(chosen["methods"]), chosen["seeds"]
                yield Case(design, name, alpha, gamma, methods, seeds, settings)


def run_block(case: Case, seeds: range) -> NDArray[np.float64]:
    """Seeds × methods × iterations × columns; every method of a seed starts from the same world."""
    found = []
    for seed in seeds:
        world = worlds.build(case.name, case.alpha, case.gamma, np.random.default_rng([seed, 0]))
        rows = [
            learner.learn(world, method, case.alpha, case.settings, seed) for method in case.methods
        ]
        found.append(rows)
    return np.array(found)


def run(task: Task, chosen: list[Case]) -> dict[Case, NDArray[np.float64]]:
    """Every block of every case; those kept in `seeds/` from an earlier run are not run again.

    With the setting `only_kept`, none is run at all.
    """
    kept = task.out / "seeds"
    kept.mkdir(exist_ok=True)
    blocks = [
        (case, range(start, min(start + BLOCK, case.seeds)), _file(kept, case, start))
        for case in chosen
        for start in range(0, case.seeds, BLOCK)
    ]
    blocks.sort(key=lambda block: (block[0].rank, block[1].start))
    if task["only_kept"]:
        blocks = [block for block in blocks if block[2].is_file()]
    lacking = [block for block in blocks if task.quick or not block[2].is_file()]
    began = time.time()
    for done, _ in enumerate(_worked(lacking, task["processes"]), 1):
        if not task.quick:
            print(f"{done} of {len(lacking)} blocks, {time.time() - began:.0f} s", flush=True)
    note = f"blocks of {BLOCK} seeds: {len(lacking)} run, {len(blocks) - len(lacking)} kept before"
    (kept / "blocks.txt").write_text(note + "\n", encoding="utf-8")
    rows = {case: [np.load(file) for each, _, file in blocks if each is case] for case in chosen}
    return {case: np.concatenate(found) for case, found in rows.items() if found}


def _worked(blocks: list[Any], processes: int) -> Iterator[None]:
    if processes == 1:
        yield from map(_work, blocks)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _alone) as pool:
        yield from pool.map(_work, blocks)


def _work(block: tuple[Case, range, Path]) -> None:
    case, seeds, file = block
    part = file.with_suffix(".part")
    with part.open("wb") as opened:
        np.save(opened, run_block(case, seeds))
    part.replace(file)


def _alone() -> None:
    """One thread a process: the matrices are small."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _file(folder: Path, case: Case, start: int) -> Path:
    return folder / f"{case.title}-{start}.npy"
