"""Plans beside simulated logs: `python -m benchmarks.plan`.

For each world and rule: the number of rows that a plan calls likely, and that with which 90 % of
simulated logs serve anything but the safe policy; then, for logs of several sizes, the share of
actions that the plan expects to change and the median over simulated logs. Plans know the true
risks; those from a log know one of 2,000 rows beside the safe risk. Exits with 1 if a number of
rows is off by more than a fifth.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import numpy as np

import tether
from benchmarks.power import eight_actions
from benchmarks.worlds import World

PROBABILITY = 0.9
RULES = {
    "alpha": lambda level: {"alpha": level},
    "promise": lambda level: {"promise": level},
    "confidence 0.9": lambda level: {"alpha": level, "confidence": 0.9},
}


@dataclass(frozen=True)
class Setting:
    """A world with tables, what is asked for, and what a plan without a log is told."""

    world: World
    level: float
    told: dict[str, float]


def settings() -> list[Setting]:
    """Losses of 0 or 1 at two rates, and graded ones."""
    usual = eight_actions()
    risk = usual.risk("clip", -np.inf)
    rare = replace(usual, name="rare losses", loss=usual.loss / 5)
    graded = replace(usual, name="graded losses", loss=np.minimum(usual.loss * 1.2, 1), graded=True)
    return [
        Setting(usual, 0.1, {"safe_risk": risk}),
        Setting(rare, 0.03, {"safe_risk": risk / 5}),
        Setting(graded, 0.1, {}),
    ]


def passing(setting: Setting, asked: dict[str, float], rows: int, runs: int, seed: int) -> float:
    """The share of logs on which anything but the safe policy is served."""
    rng, passed = np.random.default_rng([seed, rows]), 0
    for _ in range(runs):
        log, _ = setting.world.log(rows, rng)
        passed += tether.calibrate(log, **asked).exists
    return passed / runs


def simulated_rows(setting: Setting, asked: dict[str, float], guess: int, runs: int) -> float:
    """Where a straight line through shares of passing logs around a guess reaches 90 %."""
    sizes = np.unique(np.maximum(np.geomspace(0.6, 1.6, 7) * guess, 2).astype(int))
    shares = [passing(setting, asked, int(rows), runs, 0) for rows in sizes]
    # logits are nearly linear in the log of the number of rows
    odds = np.clip(shares, 0.02, 0.998)
    slope, start = np.polyfit(
        np.log(sizes), np.log(odds / (1 - odds)), 1, w=np.sqrt(odds * (1 - odds))
    )
    return float(np.exp((np.log(PROBABILITY / (1 - PROBABILITY)) - start) / slope))


def main() -> None:
    """Print a line for every world and rule."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="logs for every number of rows")
    runs, wrong = parser.parse_args().runs, 0
    for setting in settings():
        pilot, _ = setting.world.log(2000, np.random.default_rng(7))
        for name, rule in RULES.items():
            asked = rule(setting.level)
            sources = (
                {"from a log": {"log": pilot}} if not setting.told else {"figures": setting.told}
            )
            for source, known in sources.items():
                made = tether.plan(**known, **asked)
                truth = simulated_rows(setting, asked, int(made.rows_likely), runs)
                ratio = made.rows_likely / truth
                off = not 0.8 <= ratio <= 1.25
                wrong += off
                print(
                    f"{setting.world.name:22s} {name:15s} {source:11s} likely "
                    f"{made.rows_likely:6,.0f}  simulated {truth:6,.0f}  ratio {ratio:.2f}"
                    f"{'  OFF' if off else ''}",
                    flush=True,
                )
        for name, rule in RULES.items():
            asked = rule(setting.level)
            made = tether.plan(
                pilot, safe_risk=setting.world.risk("clip", -np.inf), **asked, rows=500
            )
            rng = np.random.default_rng(3)
            changed = []
            for _ in range(max(runs // 5, 20)):
                log, _ = setting.world.log(500, rng)
                changed.append(tether.calibrate(log, **asked).measured.changed)
            print(
                f"{setting.world.name:22s} {name:15s} 500 rows change "
                f"{made.expected[0].changed:.3f} of the actions, "
                f"simulated {np.median(changed):.3f} (median)",
                flush=True,
            )
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
