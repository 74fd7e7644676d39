"""How much of the gain each rule keeps: `make power`.

For every world, number of rows and rule, over fresh logs: the true risk of what is served beside
what was asked for, and its gain in reward as a share of the gain of clip at the largest beta up to
which every true risk is tolerated. With a promise both are means over the draw that the soft chain
makes. Numbers after ± are standard errors. Exits with 1 if the promise keeps less than it should.

    python -m benchmarks.power                    # every world
    python -m benchmarks.power --runs 40 --only tables
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

import tether
from benchmarks.worlds import World, eight_actions, gaussian, many_prompts

ROWS = {100: 200, 300: 150, 1000: 80, 3000: 40}
"""Numbers of rows, and of logs for each."""
KEPT = {100: 0.55, 300: 0.75, 1000: 0.88, 3000: 0.93}
"""What the promise should keep at least of the gain, without contexts and with tables."""
Served = tuple[float, float]
"""The expected loss and the gain of what is served on one log."""


def served(world: World, found: tether.Calibration) -> Served:
    """What a calibration serves; with the soft chain, on average over its draw."""
    log_betas, shares = np.array([found.log_beta]), np.ones(1)
    if found.chain is not None:
        log_betas = np.append(-np.inf, found.chain.log_betas)
        shares = found.chain.probabilities
    used = np.flatnonzero(shares > 1e-4)
    policies = [world.policy(found.family, log_betas[k]) for k in used]
    policy = sum(share * each for share, each in zip(shares[used], policies, strict=True))
    policy = policy / shares[used].sum()
    return world.mean(policy, world.loss), world.mean(policy - world.safe, world.reward)


def rules(world: World, asked: float) -> dict[str, dict[str, Any]]:
    """The rules that are compared, each as arguments of `tether.calibrate`."""
    family = {"family": "budgeted_clip(4)" if world.view == "draws" else "clip"}
    return {
        "alpha": {"alpha": asked, **family},
        "promise": {"promise": asked, **family},
        "confidence 0.9": {"alpha": asked, "confidence": 0.9, **family},
        "promise, mix": {"promise": asked, "family": "mix"},
    }


def main() -> None:
    """Print a line for every world, number of rows and rule."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.power", description=__doc__)
    parser.add_argument("--runs", type=int, help="logs for each line, instead of its own number")
    parser.add_argument("--only", default="", help="worlds whose name contains this")
    options = parser.parse_args()
    too_little = 0
    line = replace(gaussian(1.645), draws=3000)
    for world, asked in ((line, 0.1), (eight_actions(), 0.1), (many_prompts(), 0.09)):
        if options.only not in world.name:
            continue
        best, safe = world.best_gain("clip", asked), world.risk("clip", -np.inf)
        print(
            f"{world.name}: asked {asked:g}, safe risk {safe:.3f}, optimized "
            f"{world.risk('clip', np.inf):.3f}; share of the gain of the best clip"
        )
        for rows, runs in ROWS.items():
            rng = np.random.default_rng(rows)
            found: dict[str, list[Served]] = {name: [] for name in rules(world, asked)}
            for _ in range(options.runs or runs):
                log, proposals = world.log(rows, rng)
                for name, rule in rules(world, asked).items():
                    found[name].append(served(world, tether.calibrate(log, proposals, **rule)))
            for name, each in found.items():
                risk, gain = np.mean(each, axis=0) / [1, best]
                errors = np.std(each, axis=0) / np.sqrt(len(each)) / [1, best]
                is_asked = name == "promise" and world.view != "draws"
                too_little += (is_less := is_asked and gain + 2 * errors[1] < KEPT[rows])
                note = f"  LESS THAN {KEPT[rows]:.0%}" if is_less else ""
                print(
                    f"  {rows:5d} rows  {name:15s} gain {gain:4.0%} ± {errors[1]:3.0%}   risk "
                    f"{risk:.4f} ± {errors[0]:.4f}{note}",
                    flush=True,
                )
    raise SystemExit(1 if too_little else 0)


if __name__ == "__main__":
    main()
