"""How far a promise with high probability lets beta go, on logs of the same worlds.

Beside the betting test of the package stand empirical Bernstein (Maurer and Pontil) for the same
terms, (l − α)·w with the same limit of the weights, on the same sequence of betas, and the beta of
the promise in expectation. `above` is the share of logs on which the deployed risk is above alpha.

    python -m benchmarks.confidence_power --repeats 50
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import tether
from benchmarks.worlds import World, all_worlds
from tether.control.acting_weights import ActingWeights
from tether.control.constraint import Constraint
from tether.control.families import find_family
from tether.control.high_probability import certified_beta, log_beta_sequence
from tether.control.problem import Problem, pose

CONFIDENCE = 0.95
CASES = (
    ("Gaussian shift", "clip"),
    ("Gaussian shift", "mix"),
    ("heavy tail", "clip"),
    ("loss in [0, 1]", "clip"),
    ("unequal contexts, tables", "clip"),
    ("finite actions", "clip"),
    ("finite actions", "mix"),
    ("finite actions", "budgeted_clip(3)"),
)
ROWS = (200, 1000, 5000)


def by_empirical_bernstein(problem: Problem, constraint: Constraint, confidence: float) -> float:
    """The same walk with empirical Bernstein, valid where the weights have one common limit."""
    loss, found, weights = problem.log.loss[constraint.name], -np.inf, ActingWeights(problem)
    rows, level = len(loss), np.log(2 / (1 - confidence))
    for log_beta in log_beta_sequence(problem):
        log_weight, log_limit = weights.at(log_beta)
        # Over tables the largest limit of the contexts in the log stands for that of all contexts.
        limit = float(np.exp(np.max(log_limit)))
        terms = (loss - constraint.alpha) * np.exp(log_weight)
        slack = np.sqrt(2 * terms.var(ddof=1) * level / rows)
        slack += 7 * constraint.bound * limit * level / (3 * (rows - 1))
        if not terms.mean() + slack <= 0:
            return found
        found = float(log_beta)
    return found


def compare(world: World, family: str, rows: int, repeats: int) -> str:
    rng, betas, above = np.random.default_rng(0), [], []
    ((name, alpha),) = world.alpha.items()
    constraint = Constraint(name, alpha, 1.0)
    spent = 0.0
    for _ in range(repeats):
        contexts, actions = world.collect(world.log_safe, rows, rng)
        log, proposals = world.log(contexts, actions), world.proposals(contexts, rng)
        problem = pose(log, proposals, find_family(family), "empirical")
        begun = time.perf_counter()
        betting = certified_beta(problem, [constraint], CONFIDENCE).log_beta
        spent += time.perf_counter() - begun
        found = (
            betting,
            by_empirical_bernstein(problem, constraint, CONFIDENCE),
            tether.calibrate(log, proposals, alpha=alpha, family=family).log_beta,
        )
        betas.append(found)
        risks = [world.deployed(world.tethered(family, each))[0][name] for each in found]
        above.append([risk > alpha for risk in risks])
    with np.errstate(over="ignore"):
        medians = np.exp(np.median(betas, axis=0))
    cells = "".join(
        f"{median:>12.3g} {share:>6.0%}"
        for median, share in zip(medians, np.mean(above, axis=0), strict=True)
    )
    return f"{world.name:<26}{family:<18}{rows:>6}{cells}{spent / repeats:>9.3f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    worlds = {world.name: world for world in reversed(all_worlds())}
    print(
        f"{'world':<26}{'family':<18}{'rows':>6}{'betting':>12}  above{'Bernstein':>12}  above"
        f"{'expectation':>12}  above{'betting':>11}"
    )
    for name, family in CASES:
        for rows in ROWS:
            print(compare(worlds[name], family, rows, repeats), flush=True)
    print(f"\nMedian beta over {repeats} logs; confidence {CONFIDENCE:g}.")


if __name__ == "__main__":
    main()
