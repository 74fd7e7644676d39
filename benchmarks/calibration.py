"""What a calibration costs, in passes of mixed work over the same columns (`mixed_pass`).

Limits are on processor time, which other work on the machine moves least; two threads shorten the
elapsed time only. Building log and proposals, with all their checks, and printing the result, with
all its diagnostics, are rows of their own.

    python -m benchmarks.calibration [part …] [--rows N …]
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import tether
from benchmarks.exp_pass import Spent, spent
from benchmarks.mixed_pass import unit_of

LIMITS = {
    "build": 0.13,
    "clip": 2.2,
    "mix": 3.0,
    "build tables": 1.8,
    "tables": 12.0,
    "draws": 36.0,
    "print": 11.0,
}
"""The most passes of processor time: about 1.3 times the most that was measured, with AVX-512 and
without."""


def row(name: str, took: Spent, unit: Spent, limit: float) -> None:
    ratio = took.processor / unit.processor
    verdict = "ok" if ratio <= limit else "OVER"
    print(
        f"{name:<58} {ratio:>7.2f} × (at most {limit:g}, {verdict}), elapsed "
        f"{took.elapsed / unit.elapsed:.2f} × {1e3 * unit.elapsed:.0f} ms",
        flush=True,
    )


def scores(action: np.ndarray, shift: np.ndarray | float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    return -(action**2) / 2, -(((action - shift) / 0.8) ** 2) / 2 - np.log(0.8)


def marginal(rows: int, rng: np.random.Generator, *, mixed: bool):
    """A log and proposals of one Gaussian world, from one round or from a mixture of two."""
    actions, drawn = rng.normal(size=rows), 1 + 0.8 * rng.normal(size=rows)
    parts = (scores(actions), scores(drawn))
    mixes = [{"log_mix": np.logaddexp(*part) - np.log(2)} if mixed else {} for part in parts]
    loss = (actions > 1.5).astype(float)
    return tether.Log(loss, *parts[0], **mixes[0]), tether.Proposals(*parts[1], **mixes[1])


def contextual(contexts: int, draws: int, rng: np.random.Generator):
    """One row and a few draws of each policy per context, with a finite beta at an alpha of 0.14.

    The optimized policy does more harm than that; where all of it passes, hardly anything is
    searched.
    """
    shift = 0.5 + 0.5 * rng.normal(size=contexts)
    actions, label = rng.normal(size=contexts), np.repeat(np.arange(contexts), draws)
    source = np.tile(["safe", "optimized"], contexts * draws // 2)
    drawn = rng.normal(size=len(label)) * np.where(source == "safe", 1, 0.8)
    drawn += np.where(source == "safe", 0, shift[label])
    log = tether.Log(actions > 1.2, *scores(actions, shift), context=np.arange(contexts))
    return log, tether.Proposals(*scores(drawn, shift[label]), context=label, source=source)


def table_columns(rows: int, actions: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The columns of a log with tables of all actions, in which likely actions of one do harm."""
    safe = rng.normal(size=(rows, actions))
    optimized = safe + rng.normal(size=(rows, actions))
    for table in (safe, optimized):
        table -= np.log(np.exp(table).sum(axis=1, keepdims=True))
    taken = (np.exp(safe).cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    here = (np.arange(rows), np.minimum(taken, actions - 1))
    harm = (optimized[here] - safe[here] > 0.5) & (rng.random(rows) < 0.4)
    return {
        "loss": harm.astype(float),
        "log_safe": safe[here],
        "log_optimized": optimized[here],
        "log_safe_all": safe,
        "log_optimized_all": optimized,
    }


def time_marginal(sizes: list[int], rng: np.random.Generator) -> None:
    for rows in sizes:
        for mixed in (False, True):
            log, proposals = marginal(rows, rng, mixed=mixed)
            unit = unit_of(log, proposals)
            kind = f"{rows:.0e} rows and proposals, {'two rounds' if mixed else 'one round'}"

            def build(log=log, proposals=proposals):
                tether.Log(log.loss, log.log_safe, log.log_optimized, log_mix=log.log_mix)
                mixture = {"log_mix": proposals.log_mix}
                tether.Proposals(proposals.log_safe, proposals.log_optimized, **mixture)

            row(f"build, {kind}", spent(build, 3), unit, LIMITS["build"])
            for family in ("clip", "mix"):

                def task(log=log, proposals=proposals, family=family):
                    return tether.calibrate(log, proposals, alpha=0.12, family=family)

                row(f"{family}, {kind}", spent(task), unit, LIMITS[family])


def time_memory(rng: np.random.Generator) -> None:
    log, proposals = marginal(10**7, rng, mixed=True)
    held = sum(part.nbytes for part in (log.log_safe, log.log_optimized, log.loss["loss"]))
    held += proposals.log_safe.nbytes + proposals.log_optimized.nbytes
    tracemalloc.start()
    tether.calibrate(log, proposals, alpha=0.12)
    peak = tracemalloc.get_traced_memory()[1] / held
    tracemalloc.stop()
    print(f"peak extra memory, 1e+07 rows and proposals, two rounds {peak:>11.2f} × the input (at")
    print(f"  most 6, {'ok' if peak <= 6 else 'OVER'})", flush=True)


def time_tables(sizes: list[int], rng: np.random.Generator) -> None:
    for rows in sizes:
        columns = table_columns(rows, 10, rng)
        log = tether.Log(**columns)
        unit = unit_of(log)
        alpha = 1.3 * float(columns["loss"].mean())
        row(
            f"build, {rows:.0e} rows × 10 actions",
            spent(lambda c=columns: tether.Log(**c)),
            unit,
            LIMITS["build tables"],
        )
        for family in ("clip", "mix"):

            def task(log=log, alpha=alpha, family=family):
                return tether.calibrate(log, alpha=alpha, family=family)

            limit = LIMITS["tables"] if family == "clip" else LIMITS["mix"]
            row(f"{family}, {rows:.0e} rows × 10 actions", spent(task, 3), unit, limit)


def time_draws(rng: np.random.Generator) -> None:
    for contexts, draws in ((10**5, 8), (10**5, 32), (10**6, 8)):
        log, proposals = contextual(contexts, draws, rng)
        took = spent(lambda log=log, drawn=proposals: tether.calibrate(log, drawn, alpha=0.14), 2)
        name = f"budgeted clip, {contexts:.0e} contexts × {draws} draws"
        row(name, took, unit_of(log, proposals), LIMITS["draws"])


def time_shortlists(rng: np.random.Generator) -> None:
    """Shortlists of 16, beside the same tables as finitely many actions."""
    rows, size = 10**5, 16
    actions = rng.normal(size=rows)
    shortlist = tether.Shortlist(
        lambda contexts, rng: rng.normal(size=len(contexts)),
        lambda contexts, candidates: candidates,
        size=size,
    )
    log = shortlist.make_log(np.arange(rows), actions, actions > 1.2, rng)
    took = spent(lambda: tether.calibrate(log, alpha=0.14), 3)
    row("clip, 1e+05 shortlists of 16", took, unit_of(log), LIMITS["tables"])


def time_print(rng: np.random.Generator) -> None:
    """Stability, effective sample size and warnings are computed when they are first read."""
    for mixed in (False, True):
        log, proposals = marginal(10**6, rng, mixed=mixed)
        found = [tether.calibrate(log, proposals, alpha=0.12) for _ in range(3)]
        took = spent(lambda found=found: str(found.pop()), 3)
        kind = "two rounds" if mixed else "one round"
        row(f"print, 1e+06 rows, {kind}", took, unit_of(log, proposals), LIMITS["print"])


def main(parts: list[str] | None = None, sizes: list[int] | None = None) -> None:
    rng = np.random.default_rng(0)
    tasks: dict[str, Callable[[], Any]] = {
        "marginal": lambda: time_marginal(sizes or [10**6, 10**7], rng),
        "tables": lambda: time_tables(sizes or [10**5, 10**6], rng),
        "draws": lambda: time_draws(rng),
        "shortlists": lambda: time_shortlists(rng),
        "print": lambda: time_print(rng),
        "memory": lambda: time_memory(rng),
    }
    for name in parts or tasks:
        tasks[name]()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--rows", nargs="*", type=float)
    asked = parser.parse_args()
    main(asked.parts, [int(rows) for rows in asked.rows or []])
