"""The Monte Carlo of releases: the risk of every step beside alpha, and how fast the share grows.

`python -m benchmarks.release_validity --runs 2000` simulates releases of new systems whose risk is
known. `stated` is the promise in the step with the highest risk, alpha and the stability term, for
the median window and the true risk of the old system.
`held` says whether the mean risk over runs is at most alpha plus three standard errors at every
step (for a confidence: also whether at most 5 % of the runs are ever above alpha). In worlds
in which the new system changes, the step of the change is left out: nothing that was seen before
could tell. Procedures marked "(wrong)", the fixed-step canary and the peeking test promise nothing;
the command fails unless every other procedure holds everywhere and each wrong one breaks somewhere.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from benchmarks.release_worlds import (
    CONFIDENCE,
    Procedure,
    World,
    all_rows,
    confident,
    fixed_canary,
    peeking_test,
    simulate,
    windowed,
)
from tether.release.stability import worst_excess

PROCEDURES: dict[str, Procedure] = {
    "alpha": windowed("calibrated"),
    "promise": windowed("exact"),
    "confidence": confident,
    "all rows": all_rows("calibrated"),
    "fixed canary": fixed_canary,
    "peeking A/B test": peeking_test,
}
LATE: dict[str, Procedure] = {
    "alpha": windowed("calibrated"),
    "alpha, waits a step": windowed("calibrated", 1),
    "unknown left out (wrong)": windowed("calibrated", dropped=True),
}
UNKNOWN_LATE, UNKNOWN_NEVER = (0.9, 0.3), (0.8, 0.2)
WORLDS = [
    (World("better: 0.005", 0.005), PROCEDURES),
    (World("slightly worse: 0.015", 0.015), PROCEDURES),
    (World("worse: 0.05", 0.05), PROCEDURES),
    (World("much worse: 0.3", 0.3), PROCEDURES),
    (World("always harmful: 1", 1.0), PROCEDURES),
    (World("0.015, from step 8 on 0.3", 0.015, changes_at=8), PROCEDURES),
    (World("0.2, 100 keys a step", 0.2, keys=100), PROCEDURES),
    (World("0.04, 20,000 keys a step", 0.04, keys=20_000), PROCEDURES),
    (World("0.015, late losses", 0.015, late=UNKNOWN_LATE), LATE),
    (World("0.05, late losses", 0.05, late=UNKNOWN_LATE), LATE),
    (World("0.05, 20 % missing", 0.05, missing=UNKNOWN_NEVER), LATE),
    (World("0.3, 20 % missing", 0.3, missing=UNKNOWN_NEVER), LATE),
]
ERRORS = 3
PROMISING = ("alpha", "promise", "confidence", "alpha, waits a step")
"""The procedures that must hold."""


def verdict(
    world: World, name: str, shares: np.ndarray, risks: np.ndarray
) -> tuple[bool, int, float, float]:
    """Whether alpha held; the worst step, its mean risk and the standard error."""
    counted = np.ones(len(risks), bool)
    if world.changes_at is not None:
        counted[world.changes_at - 1] = False
    mean = risks.mean(axis=1)
    error = risks.std(axis=1, ddof=1) / np.sqrt(risks.shape[1])
    over = np.where(counted, mean - ERRORS * error, -np.inf)
    worst = int(np.argmax(np.where(counted, mean, -np.inf)))
    held = bool((over <= world.alpha * (1 + 1e-9)).all())
    if name == "confidence" and world.changes_at is None:
        ever = (risks > world.alpha * (1 + 1e-9)).any(axis=0).mean()
        held &= bool(ever <= 1 - CONFIDENCE)
    return held, worst, float(mean[worst]), float(error[worst])


def stated(world: World, name: str, windows: np.ndarray) -> float:
    """What is promised: alpha and, for the calibrated share, the stability term."""
    if not name.startswith("alpha"):
        return world.alpha
    return world.alpha + worst_excess(int(np.median(windows)), world.old_risk, world.alpha)


def reached(shares: np.ndarray, level: float) -> str:
    """The first step at which the mean share reaches a level."""
    at = np.flatnonzero(shares.mean(axis=1) >= level)
    return f"{at[0] + 1}" if len(at) else "-"


HEAD = (
    f"{'new system':<27} {'procedure':<25} {'highest risk ± se':<18} {'step':>4} "
    f"{'stated':>7} {'held':>5} {'share: step 2':>13} {'3':>6} {'4':>6} {'last':>6} "
    f"{'50 % at':>8} {'95 % at':>8}"
)


def line(
    world: World, name: str, shares: np.ndarray, risks: np.ndarray, windows: np.ndarray
) -> str:
    held, worst, risk, error = verdict(world, name, shares, risks)
    promise = stated(world, name, windows[worst])
    promised = f"{promise:.4f}" if name in PROMISING else "-"
    shown = " ".join(f"{shares[step].mean():>6.1%}" for step in (1, 2, 3, -1))
    return (
        f"{world.name:<27} {name:<25} {risk:.5f} ± {error:.5f}  {worst + 1:>4} {promised:>7} "
        f"{'yes' if held else 'NO':>5} {'':>6} {shown} {reached(shares, 0.5):>8} "
        f"{reached(shares, 0.95):>8}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    begun, good, broke = time.perf_counter(), True, {}
    print(HEAD)
    for world, procedures in WORLDS:
        if arguments.only not in world.name:
            continue
        for number, (name, procedure) in enumerate(procedures.items()):
            rng = np.random.default_rng([arguments.seed, number, len(world.name)])
            shares, risks, windows = simulate(world, procedure, arguments.runs, rng)
            print(line(world, name, shares, risks, windows), flush=True)
            held, worst, risk, error = verdict(world, name, shares, risks)
            if name in PROMISING:
                promise = stated(world, name, windows[worst])
                good &= held or risk <= promise + ERRORS * error
            else:
                broke[name] = broke.get(name, False) or not held
    print(f"\n{arguments.runs:,} runs each, {time.perf_counter() - begun:.0f} s.")
    idle = [name for name, seen in broke.items() if not seen and name != "all rows"]
    if good and (not idle or arguments.only):
        print("Every promise held, and what promises nothing broke alpha somewhere.")
        return 0
    print(f"SOMETHING IS OFF: {'a promise broke' if not good else f'{idle} never broke'}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
