"""A release without a log, and a person who halts and resumes it when its losses look good.

    python -m benchmarks.release_first_step [--runs 300]

The rows of the first step are all that the old system's bound is ever computed from. The person
knows both systems, looks after every twenty keys, and halts and resumes at the moment that is best
for the share, found by dynamic programming. Then a new system that always does harm gets its first
share. With n rows in the first step the expected loss is at most alpha + E[(ρ − alpha)₊], which is
computed exactly (docs/explanation/release.md, Theorem 2). The row marked "(wrong)" lets a
resumption end the first step; it must break the bound.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from unittest.mock import patch

import numpy as np
from scipy.stats import binom

import tether
from tether.rounds.releases.step import Step

ALPHA, OLD_RISK, NEW_RISK = 0.1, 0.08, 1.0
ROWS, LOOK_EVERY = 400, 20
RUNS, ERRORS = 300, 3


def best_moments() -> dict[int, int]:
    """After so many rows, stop if there are at most so many harms: the optimal stopping rule."""
    share = {n: _shares(n) for n in range(LOOK_EVERY, ROWS + 1, LOOK_EVERY)}
    more = binom.pmf(np.arange(LOOK_EVERY + 1), LOOK_EVERY, OLD_RISK)
    value, most = share[ROWS], {}
    for rows in sorted(share, reverse=True)[1:]:
        after = np.convolve(np.append(value, np.zeros(LOOK_EVERY)), more[::-1])
        goes_on = after[LOOK_EVERY : LOOK_EVERY + ROWS + 1]
        stops = (share[rows] >= goes_on) & (share[rows] > 0)
        most[rows] = int(stops.sum()) - 1
        value = np.maximum(share[rows], goes_on)
    return most


def _shares(rows: int) -> np.ndarray:
    """The first share, by the number of harms in so many rows of the old system."""
    bound = np.minimum((np.arange(ROWS + 1) + 1) / (rows + 1), ALPHA)
    return (ALPHA - bound) / (1 - bound)


def first_risk(seed: int, most: dict[int, int]) -> tuple[float, int]:
    """The expected loss of the step after the first, and from how many rows its share comes."""
    rng = np.random.default_rng([seed, 15])
    known: list[float] = []
    acted = False
    with tether.Release(
        "sqlite://",
        {"harm": ALPHA},
        keys_per_step=ROWS,
        max_silence=None,
        salt=f"first step {seed}".encode(),
    ) as release:
        while len(known) < 2 * ROWS:
            keys = [f"key {len(known) + k}" for k in range(LOOK_EVERY)]
            release.assign(keys)
            step = release.step
            if step.number > 1:
                return OLD_RISK + (NEW_RISK - OLD_RISK) * step.share, _rows(step)
            losses = (rng.random(LOOK_EVERY) < OLD_RISK).astype(float)
            known += losses.tolist()
            release.observe(keys, losses)
            if not acted and sum(known) <= most.get(len(known), -1):
                acted = True
                release.halt("the losses look good", actor="a person")
                release.resume("and the ramp may begin", actor="a person")
    raise AssertionError("the first step never ended")


def _rows(step: Step) -> int:
    return step.ramp_share.guardrails["harm"].old.rows


def _resumptions_end_it() -> AbstractContextManager[object]:
    """As it would be without the rule: wrong."""
    return patch.object(Step, "collects_old_rows", lambda *_: False)


def stated() -> float:
    """Alpha, and what the logs add on which the old system does not pass."""
    harms = np.arange(ROWS + 1)
    above = np.maximum((harms + 1) / (ROWS + 1) - ALPHA, 0.0)
    return ALPHA + float(above @ binom.pmf(harms, ROWS, OLD_RISK))


def main(runs: int = RUNS) -> int:
    bound, most, held = stated(), best_moments(), {}
    for name, wrong in (("a resumption does not end the first step", False), ("(wrong)", True)):
        with _resumptions_end_it() if wrong else nullcontext():
            risks, rows = np.array([first_risk(seed, most) for seed in range(runs)]).T
        mean, error = risks.mean(), risks.std(ddof=1) / np.sqrt(runs)
        held[wrong] = mean <= bound + ERRORS * error
        print(
            f"{name:<42} {mean:.4f} ± {error:.4f}, at most {bound:.4f}: "
            f"{'held' if held[wrong] else 'BROKEN'}; the bound is from {rows.min():.0f} to "
            f"{rows.max():.0f} rows",
            flush=True,
        )
    return 0 if held[False] and not held[True] else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    sys.exit(main(parser.parse_args().runs))
