"""The benchmark table: every figure is a ratio to one `np.sort` in the same run.

Machines differ and are noisy; a ratio within one run says what a second would not.
"""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

import tether
from benchmarks import (
    export,
    gateway,
    release_load,
    rounds,
    rounds_growth,
    rounds_writers,
    sampling,
    serve,
    thresholds,
)


def seconds(task: Callable[[], object], repeats: int = 3) -> float:
    """The best of a few runs."""
    best = np.inf
    for _ in range(repeats):
        begun = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - begun)
    return best


def row(name: str, spent: float, unit: str, base: float, limit: float) -> None:
    ratio = spent / base
    verdict = "ok" if ratio <= limit else "OVER"
    print(f"{name:<58} {ratio:>7.2f} × {unit:<26} (at most {limit:g})  {verdict}", flush=True)


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
    """A log with one row a context and a few draws from each policy in each."""
    shift = 0.5 * rng.normal(size=contexts)
    actions, label = rng.normal(size=contexts), np.repeat(np.arange(contexts), draws)
    source = np.tile(["safe", "optimized"], contexts * draws // 2)
    drawn = rng.normal(size=len(label)) * np.where(source == "safe", 1, 0.8)
    drawn += np.where(source == "safe", 0, shift[label])
    log = tether.Log(actions > 1.2, *scores(actions, shift), context=np.arange(contexts))
    return log, tether.Proposals(*scores(drawn, shift[label]), context=label, source=source)


def time_marginal(rng: np.random.Generator) -> None:
    for rows, limit in ((10**6, 8), (10**7, 5)):
        for mixed in (False, True):
            log, proposals = marginal(rows, rng, mixed=mixed)
            ratios = log.log_optimized - log.log_safe
            base = seconds(lambda ratios=ratios: np.sort(ratios))
            spent = seconds(
                lambda log=log, proposals=proposals: tether.calibrate(log, proposals, alpha=0.12)
            )
            kind = "two rounds" if mixed else "one round"
            name = f"calibrate, {rows:.0e} rows and proposals, {kind}"
            row(name, spent, f"np.sort of {rows:.0e}", base, limit)
    held = sum(part.nbytes for part in (log.log_safe, log.log_optimized, log.loss["loss"]))
    held += proposals.log_safe.nbytes + proposals.log_optimized.nbytes
    tracemalloc.start()
    tether.calibrate(log, proposals, alpha=0.12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    row("peak extra memory, 1e+07 rows and proposals, two rounds", peak, "the input", held, 6)


def time_contextual(rng: np.random.Generator) -> None:
    for draws in (8, 32):
        log, proposals = contextual(10**5, draws, rng)
        ratios = proposals.log_optimized - proposals.log_safe
        base = seconds(lambda ratios=ratios: np.sort(ratios))
        spent = seconds(
            lambda log=log, drawn=proposals: tether.calibrate(log, drawn, alpha=0.14), repeats=2
        )
        unit = f"np.sort of {len(ratios):.0e}"
        row(f"calibrate, 1e+05 contexts × {draws} draws", spent, unit, base, 20)


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
    tables = tether.Log(
        log.loss,
        log.log_safe,
        log.log_optimized,
        log_safe_all=log.log_safe_all,
        log_optimized_all=log.log_optimized_all,
    )
    base = seconds(lambda: tether.calibrate(tables, alpha=0.14), repeats=2)
    spent = seconds(lambda: tether.calibrate(log, alpha=0.14), repeats=2)
    row("calibrate, 1e+05 shortlists of 16", spent, "the same as finite actions", base, 3)


def time_stability(rng: np.random.Generator) -> None:
    for mixed in (False, True):
        log, proposals = marginal(10**5, rng, mixed=mixed)
        base = seconds(lambda log=log, drawn=proposals: tether.calibrate(log, drawn, alpha=0.12))
        found = [tether.calibrate(log, proposals, alpha=0.12) for _ in range(3)]
        spent = min(seconds(lambda each=each: each.stability, repeats=1) for each in found)
        kind = "two rounds" if mixed else "one round"
        row(f"stability, 1e+05 rows, {kind}", spent, "one calibration", base, 20)


def time_import() -> None:
    """`import tether` in a fresh interpreter, less what an interpreter takes by itself."""

    def python(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True), 5)

    spent = python("import tether") - python("pass")
    print(f"{'import tether':<58} {spent:>7.2f} s (at most 0.3)  {'ok' if spent < 0.3 else 'OVER'}")


def main() -> None:
    rng = np.random.default_rng(0)
    time_marginal(rng)
    time_contextual(rng)
    time_shortlists(rng)
    time_stability(rng)
    time_import()
    sampling.main()
    thresholds.main()
    rounds.main()
    rounds_growth.main()
    export.main()
    release_load.main()
    rounds_writers.main()
    serve.main()
    gateway.main()
    from benchmarks import llm  # heavy

    llm.main()


if __name__ == "__main__":
    main()
