"""Ramps of policies through the real controller: the mean risk of every step, beside alpha.

`python -m benchmarks.ramp_validity` simulates runs of `tether.Controller(family="ramp")` with a
store in memory. Contexts are of several kinds, which differ strongly in what harms them: for each
kind and action of a run the probability of harm is drawn anew. The safe policy acts first. Then
policies are ramped one after the other. A learned one takes for each kind the action that pays most
among those of which hardly any harm was observed in the training rows so far; a greedy one takes
what pays most, which harms; a harmful one what harms most; a better one what harms least. One at
the edge harms with a probability near alpha, so that it is often promoted and then often does not
pass; a harmful one follows it. The risk of a step is the expected loss of what is served in it,
known from the world.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np

import tether
from tether.release import ArmCounts, ramp_calibration
from tether.rounds.releases.grouped_counts import GroupedCounts

ACTIONS = 4


@dataclass(frozen=True)
class World:
    """How many rows there are, what is tolerated, and how policies come about."""

    name: str
    alpha: float
    safe_rows: int
    actions_per_step: int
    kinds: int
    policy: str = "learned"
    policies: int = 2
    steps: int = 4
    against: str = "safe"
    late: tuple[float, float] = (0.0, 0.0)
    """Which parts of the losses of 1, and of 0, never arrive."""
    runs: float = 1.0
    """How many runs, as a part of what is asked for."""


FEW = {"alpha": 0.3, "safe_rows": 80, "actions_per_step": 40, "kinds": 6}
MANY = {"alpha": 0.1, "safe_rows": 2000, "actions_per_step": 1000, "kinds": 20, "runs": 0.1}
WORLDS = [
    World("few rows, learned", **FEW),
    World("few rows, greedy", **FEW, policy="greedy"),
    World("few rows, harmful", **FEW, policy="harmful"),
    World("few rows, better", **FEW, policy="better"),
    World("few rows, learned, against last", **FEW, against="last", policies=3),
    World("few rows, better, against last", **FEW, policy="better", against="last", policies=3),
    World("few rows, at the edge, against last", **FEW, policy="edge", against="last", policies=3),
    World("few rows, learned, losses missing", **FEW, late=(0.9, 0.1)),
    World("many rows, greedy", **MANY, policy="greedy"),
    World("many rows, learned, against last", **MANY, against="last", policies=3),
]


class TablePolicy:
    """Takes an action for each kind of context, or any of them at random; it only draws."""

    def __init__(self, table: np.ndarray | None) -> None:
        self.table = table

    def sample(self, contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One action per context."""
        if self.table is None:
            return rng.integers(ACTIONS, size=len(contexts))
        return self.table[np.asarray(contexts)[:, 0]]

    def risk(self, harm: np.ndarray) -> float:
        """The expected loss."""
        return float(
            harm.mean() if self.table is None else harm[range(len(harm)), self.table].mean()
        )


def one_run(world: World, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The risk and the share of every step of one run."""
    rng = np.random.default_rng([seed, world.safe_rows, len(world.name)])
    shape = (world.kinds, ACTIONS)
    harm = np.where(rng.random(shape) < 0.3, 0.3 + 0.7 * rng.random(shape), 0.0)
    harm = np.minimum(harm * 0.5 * world.alpha / max(float(harm.mean()), 0.05), 1.0)
    pay = rng.random(shape) + 2 * harm  # what harms pays more
    policies = {0: TablePolicy(None)}
    risks, shares = [], []
    with tether.Controller(
        policies[0],
        alpha=world.alpha,
        store="sqlite://",
        family="ramp",
        against=world.against,
        actions_per_step=world.actions_per_step,
        alarm_risk=0.99,
        max_silence=None,
    ) as run:

        def act(round_, count):
            contexts = rng.integers(world.kinds, size=(count, 1))
            taken = round_.act(contexts, rng)
            lost = rng.random(count) < harm[contexts[:, 0], taken.actions]
            arrives = rng.random(count) >= np.where(lost, *world.late)
            rewards = pay[contexts[:, 0], taken.actions]
            if arrives.any():
                run.observe(taken.ids[arrives], lost[arrives].astype(float), rewards[arrives])

        act(run.begin(), world.safe_rows)
        for k in range(world.policies):
            made = _policy(world, harm, pay, run.training_rows(), is_last=k == world.policies - 1)
            round_ = run.begin(made)
            for step in range(world.steps):
                present = run.round if step == 0 else run._step_in_use(round_)
                policies[present.number] = made
                old = policies[present.reference if present.share else 0].risk(harm)
                risks.append((1 - present.share) * old + present.share * made.risk(harm))
                shares.append(present.share)
                act(round_, world.actions_per_step)
    return np.array(risks), np.array(shares)


def _policy(world: World, harm, pay, rows, *, is_last: bool) -> TablePolicy:
    if world.policy == "edge" and not is_last:
        return _at_the_edge(harm, world.alpha)
    if world.policy in ("edge", "harmful"):
        return TablePolicy(harm.argmax(axis=1))
    if world.policy == "better":
        return TablePolicy(harm.argmin(axis=1))
    if world.policy == "greedy":
        return TablePolicy(pay.argmax(axis=1))
    if not len(rows):
        return TablePolicy(pay.argmax(axis=1))
    kinds, actions, losses = rows.contexts[:, 0], rows.actions, rows.loss
    seen, lost = (np.zeros((world.kinds, ACTIONS)) for _ in range(2))
    np.add.at(seen, (kinds, actions), 1)
    np.add.at(lost, (kinds, actions), losses)
    looks = lost / np.maximum(seen, 1)  # what was never tried looks harmless
    return TablePolicy(np.where(looks <= world.alpha / 2, pay, -looks).argmax(axis=1))


def _at_the_edge(harm, alpha: float) -> TablePolicy:
    """What harms most for the first kinds and least for the others; of these, nearest to alpha."""
    tables = [
        np.where(np.arange(len(harm)) < most, harm.argmax(axis=1), harm.argmin(axis=1))
        for most in range(len(harm) + 1)
    ]
    return min(map(TablePolicy, tables), key=lambda each: abs(each.risk(harm) - alpha))


def simulate(world: World, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Risks and shares, runs × steps; without the stability term, which changes no share."""
    with patch.object(ramp_calibration, "worst_excess", lambda *_: 0.0):
        found = [one_run(world, seed) for seed in range(runs)]
    return np.array([each[0] for each in found]), np.array([each[1] for each in found])


@dataclass(frozen=True)
class RampVerdict:
    """The step with the highest mean risk, compared with alpha and three standard errors."""

    risk: float
    error: float
    held: bool
    shares: np.ndarray


def verdict(world: World, risks: np.ndarray, shares: np.ndarray) -> RampVerdict:
    mean, error = risks.mean(axis=0), risks.std(axis=0, ddof=1) / np.sqrt(len(risks))
    worst = int(np.argmax(mean - 3 * error))
    held = bool((mean <= world.alpha + 3 * error).all())
    return RampVerdict(float(mean[worst]), float(error[worst]), held, shares.mean(axis=0))


@contextmanager
def pending_left_out() -> Iterator[None]:
    """Losses that are not known are left out instead of counted as the bound: wrong."""
    right = GroupedCounts.counts

    def counts(rows, groups):
        found = right(rows, groups)
        return {
            name: ArmCounts(each.rows - each.pending, each.total) for name, each in found.items()
        }

    with patch.object(GroupedCounts, "counts", counts):
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    all_held = True
    print(f"{'world':<60}{'runs':>5}{'alpha':>7}{'highest risk ± se':>20}{'held':>6}  shares")
    for world in WORLDS:
        if given.only not in world.name:
            continue
        runs = max(20, int(given.runs * world.runs))
        names = [""] + ([", unknown left out (wrong)"] if any(world.late) else [])
        for wrong in names:
            if wrong:
                with pending_left_out():
                    found = verdict(world, *simulate(world, runs))
            else:
                found = verdict(world, *simulate(world, runs))
                all_held &= found.held
            shares = " ".join(f"{share:.0%}" for share in found.shares)
            print(
                f"{world.name + wrong:<60}{runs:>5}{world.alpha:>7}{found.risk:>11.4f} ± "
                f"{found.error:.4f}{'yes' if found.held else 'NO':>6}  {shares}",
                flush=True,
            )
    return 0 if all_held else 1


if __name__ == "__main__":
    sys.exit(main())
