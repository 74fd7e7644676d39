"""Whether logs in parts have the beta of memory, over many generated worlds.

Worlds have ties, zeros, ratios past ±700, mixtures, one row, several losses and partitions without
rows (`tests.control.parts.worlds`); in three of four, alpha is near the mean loss. In two of three
worlds so few rows may be collected that bins are divided instead, and in every tenth the rows are
shuffled and divided anew, which must give the same bits. With `--engine duckdb` or `polars`, the
rows come from a frame of that engine, in batches of a few rows. With `--contexts`, rows have tables
of all actions or stored draws, conditions that are zero at every beta included, and the stability
must be that of memory too.

    python -m benchmarks.scan_equality [--worlds 10000] [--first 0] [--engine duckdb] [--contexts]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tests.control.parts.worlds import World, contextual_world, in_pieces, marginal_world

from tether.control.parts import clip_solver
from tether.scan import engine_frames

MOST_DIFFERENCE = 1e-10
"""The largest difference in log beta that passes, absolutely or relative to log beta."""
MOST_STABILITY_DIFFERENCE = 1e-6
"""The largest relative difference in stability that passes, with contexts."""
UNCHANGED = 1e-12
"""A stability below this is that of a policy that does not move."""


def near_the_mean(world: World, rng: np.random.Generator) -> World:
    """The same world with alphas near the mean losses, where most betas are finite."""
    alpha = {}
    for name, loss in world.log.items():
        if name.startswith("loss"):
            near = float(loss.mean()) * rng.uniform(0.9, 1.5) + 1 / len(loss)
            alpha[name] = min(max(near, 1e-3), 0.95)
    several = isinstance(world.settings["alpha"], dict)
    stated = alpha if several else alpha["loss"]
    return replace(world, settings={**world.settings, "alpha": stated})


def frame_of(engine: str) -> Callable[..., Any]:
    """A source for worlds: their rows as a frame of an engine, in order or shuffled."""

    def source(columns: Any, rng: np.random.Generator, pieces: int, shuffle: bool) -> Any:
        import duckdb
        import polars

        rows = len(columns["log_safe"])
        order = rng.permutation(rows) if shuffle else np.arange(rows)
        engine_frames.ROWS_PER_ENGINE_BATCH = max(rows // pieces, 1)
        frame = polars.DataFrame({name: values[order] for name, values in columns.items()})
        return frame.lazy() if engine == "polars" else duckdb.from_arrow(frame.to_arrow())

    return source


def compare(seed: int, source: Callable[..., Any] = in_pieces) -> tuple[str, float]:
    """One world: how it ended, and the largest difference in log beta."""
    rng = np.random.default_rng(seed)
    world = near_the_mean(marginal_world(rng), rng) if seed % 4 else marginal_world(rng)
    clip_solver.MAX_COLLECTED = (1 << 20, 3, 0)[seed % 3]
    try:
        expected = world.in_memory()
    except ValueError:
        try:
            world.in_parts(rng, source=source)
        except ValueError:
            return "refused by both", 0.0
        return "REFUSED IN MEMORY ALONE", np.inf
    found = world.in_parts(rng, source=source)
    if seed % 10 == 0:
        other = world.in_parts(np.random.default_rng(seed), 5, shuffle=True, source=source)
        if other.log_beta_by_constraint != found.log_beta_by_constraint:
            return "NOT THE SAME BITS", np.inf
    differences = [0.0]
    for name, log_beta in expected.log_beta_by_constraint.items():
        other_beta = found.log_beta_by_constraint[name]
        if log_beta != other_beta:  # both may be infinite
            differences.append(abs(log_beta - other_beta) / max(1.0, abs(log_beta)))
    largest = max(differences)
    finite = any(np.isfinite(each) for each in expected.log_beta_by_constraint.values())
    if not largest <= MOST_DIFFERENCE:
        return "DIFFERENT", largest
    return "a finite beta" if finite else "no finite beta", largest


def compare_contexts(seed: int) -> tuple[str, float]:
    """The same for a world with contexts."""
    expected, found, _ = contextual_world(seed)
    difference = 0.0
    if expected.log_beta != found.log_beta:
        difference = abs(expected.log_beta - found.log_beta) / max(1.0, abs(expected.log_beta))
    if not difference <= MOST_DIFFERENCE:
        return "DIFFERENT", difference
    moved = abs(found.stability - expected.stability)
    if moved > UNCHANGED + MOST_STABILITY_DIFFERENCE * expected.stability:
        return "ANOTHER STABILITY", moved / expected.stability
    return "a finite beta" if np.isfinite(expected.log_beta) else "no finite beta", difference


def main() -> bool:
    """Print how many worlds ended in which way; whether all are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--engine", choices=("duckdb", "polars"))
    parser.add_argument("--contexts", action="store_true")
    given = parser.parse_args()
    source = frame_of(given.engine) if given.engine else in_pieces
    counts: dict[str, int] = {}
    largest = 0.0
    for seed in range(given.first, given.first + given.worlds):
        kind, difference = compare_contexts(seed) if given.contexts else compare(seed, source)
        counts[kind] = counts.get(kind, 0) + 1
        if kind.isupper():
            print(f"seed {seed}: {kind}, {difference:.3g}", flush=True)
        else:
            largest = max(largest, difference)
    ended = ", ".join(f"{number:,} {kind}" for kind, number in sorted(counts.items()))
    print(f"{given.worlds:,} worlds from {given.first}: {ended}; largest difference {largest:.2g}")
    return not any(kind.isupper() for kind in counts)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
