"""How often the old system does not pass, and what it would cost to try until it does.

`python -m benchmarks.release_old_rows` prints two tables, both exact sums with the real share:

1. The probability that the old system's rows do not pass, by their number, its risk and what is
   tolerated: such a release never has a key for the new system.
2. The mean loss of the step after the first for a new system that always does harm, where a release
   keeps the rows of its first step; where it takes those of later steps instead until some pass
   (fresh); and where it adds them to the first ones (together). At most ten steps. The promise is
   kept by the first rule alone, so the other two are not built.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from benchmarks.release_pace import table
from tether.release import ArmCounts, Guardrail, ramp_share

ROWS = (100, 200, 500, 1_000, 2_000, 3_000, 5_000)
ASKED = (
    (Guardrail(promise=0.05), 0.025),
    (Guardrail(promise=0.02), 0.005),
    (Guardrail(promise=0.02), 0.01),
    (Guardrail(promise=0.02), 0.015),
    (Guardrail(promise=0.01), 0.005),
    (Guardrail(promise=0.001), 0.0005),
    (Guardrail(0.02), 0.01),
)
TRIES, HARM = 10, 1.0
RETRIED = (
    (0.02, 2_000, 0.01),
    (0.02, 2_000, 0.016),
    (0.02, 2_000, 0.018),
    (0.02, 500, 0.019),
    (0.1, 200, 0.095),
)


def first_shares(guardrail: Guardrail, rows: int) -> np.ndarray:
    """The share before anything is known of the new system, by the old system's failures."""
    shares = np.zeros(rows + 1)
    for failures in range(rows + 1):
        old, new = {"": ArmCounts(rows, float(failures))}, {"": ArmCounts(0, 0.0)}
        shares[failures] = ramp_share({"": guardrail}, old=old, new=new).share
        if shares[failures] == 0:
            break  # and with more failures
    return shares


def fails(guardrail: Guardrail, rows: int, risk: float) -> float:
    """The probability that the old system does not pass."""
    return float(
        binom.pmf(np.arange(rows + 1), rows, risk)[first_shares(guardrail, rows) == 0].sum()
    )


def mean_losses(guardrail: Guardrail, rows: int, risk: float) -> tuple[float, float, float]:
    """The mean loss with the first rows, with fresh ones and with all together."""
    counts = binom.pmf(np.arange(rows + 1), rows, risk)
    shares = first_shares(guardrail, rows)
    once = served(counts, shares, risk)
    missed = counts[shares == 0].sum()
    opened = once - missed * risk
    fresh = opened * sum(missed**k for k in range(TRIES)) + missed**TRIES * risk
    together, waiting = 0.0, np.array([1.0])
    for tried in range(1, TRIES + 1):
        waiting = np.convolve(waiting, counts)
        shares = first_shares(guardrail, tried * rows)
        together += served(np.where(shares > 0, waiting, 0.0), shares, risk)
        waiting = np.where(shares > 0, 0.0, waiting)
    return once, float(fresh), float(together + waiting.sum() * risk)


def served(counts: np.ndarray, shares: np.ndarray, risk: float) -> float:
    """The sum of the losses of what is served, each with its probability."""
    return float(counts @ (risk + shares * (HARM - risk)))


def main() -> None:
    """Print the tables."""
    table(
        ("tolerated", "old risk"),
        [f"{rows:,} rows" for rows in ROWS],
        (
            (
                f"{'alpha' if each.promise is None else 'promise'} {each.tolerated:g}",
                f"{risk:g}",
                *(f"{fails(each, rows, risk):.1%}" for rows in ROWS),
            )
            for each, risk in ASKED
        ),
    )
    table(
        ("promise", "rows of a step", "old risk"),
        ("first step", "fresh", "together"),
        (
            (
                f"{promise:g}",
                f"{rows:,}",
                f"{risk:g}",
                *(f"{each:.5f}" for each in mean_losses(Guardrail(promise=promise), rows, risk)),
            )
            for promise, rows, risk in RETRIED
        ),
    )


if __name__ == "__main__":
    main()
