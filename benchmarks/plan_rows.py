"""Plans beside what happens: how many rows pass with probability 0.5 and 0.9.

Logs of n rows are drawn and calibrated with the settings of the plan. A log passes if a beta does,
and, where a promise was asked for, is stated with it; a second number is the confidence that it is
certified with. The share that passes is fitted by a probit
curve in log n, from which the two numbers of rows are read. The last column but one is the share of
logs that pass with the rows that are planned for probability 0.9.

    python -m benchmarks.plan_rows --repeats 60
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtri

from benchmarks.plan_worlds import PlanWorld, all_worlds

STEPS = 1.35
"""The factor between two numbers of rows in which logs are drawn."""

FEWEST_PASSING = 0.35
"""Where the curve begins: logs that are much smaller may pass because they have no loss at all."""


def share_passing(world: PlanWorld, rows: int, repeats: int, rng: np.random.Generator) -> float:
    """The share of logs of so many rows on which something passes."""
    return float(np.mean([world.calibrate(rows, rng).exists for _ in range(repeats)]))


def rows_that_pass(
    world: PlanWorld, start: float, repeats: int, rng: np.random.Generator
) -> dict[float, float]:
    """The rows that pass with probability 0.5 and 0.9, by logs on both sides of a start."""
    found: dict[int, float] = {}

    def look(rows: float) -> float:
        size = max(int(rows), 2)
        if size not in found:
            found[size] = share_passing(world, size, repeats, rng)
        return found[size]

    rows = start
    while look(rows) < 0.97 and rows < 200_000:
        rows *= STEPS
    rows = start
    while look(rows) > FEWEST_PASSING and rows > 2:
        rows /= STEPS
    sizes, shares = np.log(np.array(sorted(found))), np.array([found[k] for k in sorted(found)])

    def unlikely(curve: np.ndarray) -> float:
        z = np.exp(curve[1]) * (sizes - curve[0])
        return float(-repeats * (shares @ log_ndtr(z) + (1 - shares) @ log_ndtr(-z)))

    middle = float(np.interp(0.5, np.maximum.accumulate(shares), sizes))
    best = minimize(unlikely, np.array([middle, 0.5]), method="Nelder-Mead").x
    return {
        probability: float(np.exp(best[0] + ndtri(probability) / np.exp(best[1])))
        for probability in (0.5, 0.9)
    }


def compare(world: PlanWorld, repeats: int) -> str:
    """One line of the table."""
    begun = time.perf_counter()
    planned = {each: world.plan(pass_probability=each) for each in (0.5, 0.9)}
    spent = (time.perf_counter() - begun) / 2
    rng = np.random.default_rng(0)
    real = rows_that_pass(world, planned[0.5].rows_likely, repeats, rng)
    passing = share_passing(world, int(planned[0.9].rows_likely), repeats, rng)
    target = next(
        f"{name} {world.asked[name]:g}" for name in ("promise", "alpha") if name in world.asked
    )
    if "confidence" in world.asked:
        target += f", {world.asked['confidence']:g}"
    cells = "".join(
        f"{planned[each].rows_likely:>9,}{real[each]:>9,.0f}"
        f"{planned[each].rows_likely / real[each] - 1:>+8.0%}"
        for each in (0.5, 0.9)
    )
    named = f"{world.name:<24}{world.asked['family']:<6}{target:<19}{planned[0.9].safe_risk:<8.3g}"
    return f"{named}{cells}{passing:>9.0%}{spent:>8.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--only", type=str, default="", help="worlds whose name contains this")
    parser.add_argument("--confidence", action="store_true", help="only those with a confidence")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"{'':<57}{'rows, probability 0.5':^26}{'rows, probability 0.9':^26}"
        + f"{'pass':>9}{'time of':>10}"
    )
    print(
        f"{'world':<24}{'':<6}{'asked':<19}{'safe':<8}"
        + f"{'planned':>9}{'real':>9}{'':>8}" * 2
        + f"{'with 0.9':>9}{'a plan':>10}"
    )
    for make in all_worlds():
        world = make()
        certifies = "confidence" in world.asked
        if arguments.only in world.name and certifies >= arguments.confidence:
            print(compare(world, arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
