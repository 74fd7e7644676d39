"""Several rounds of one world: each round's rows come from what the round before deployed.

In every round the loss model is fitted, and the candidate chosen, on all training rows so far, and
what is deployed is calibrated on all calibration rows so far. Both came from a mixture of the
policies that were deployed, which is the denominator of their importance weights. What is reported
is the last round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tether
from benchmarks.power_methods import Deployed
from benchmarks.power_worlds import Population, PowerWorld, Rows
from tether.aiming import aimed_candidates, fit_loss

ROUNDS = 4
ROUND_METHODS = ("clip", "mix", "aimed", "chosen")

Improve = Callable[[Rows, Any, np.random.Generator], tuple[Any, str, str]]
"""From training rows and the policy that took them to a policy, its family and a note."""


class RoundsRun:
    """One run of several rounds, with the same randomness for every method."""

    def __init__(self, world: PowerWorld, rows: int, rng: np.random.Generator) -> None:
        self.world, self.rows = world, rows
        self.seed = int(rng.integers(2**32))

    def clip(self) -> Deployed:
        """The optimized policy as it is."""
        return self.deploy(lambda rows, logged_by, rng: (self.world.optimized, "clip", ""))

    def mix(self) -> Deployed:
        """The same with mix."""
        return self.deploy(lambda rows, logged_by, rng: (self.world.optimized, "mix", ""))

    def aimed(self) -> Deployed:
        """Clip, aimed by a loss model of all training rows."""
        world = self.world

        def improve(rows: Rows, logged_by: Any, rng: np.random.Generator) -> tuple[Any, str, str]:
            policies = (world.safe, world.optimized)
            columns = rows.contexts, rows.actions, rows.losses
            model = fit_loss(*columns, rng=rng, policies=policies)
            aimed = tether.aim(world.optimized, model, rows.contexts, world.alpha)
            return aimed.policy, "clip", model.kind

        return self.deploy(improve)

    def chosen(self) -> Deployed:
        """Whatever earns most in simulated calibrations on all training rows."""
        world = self.world

        def improve(rows: Rows, logged_by: Any, rng: np.random.Generator) -> tuple[Any, str, str]:
            choice = tether.choose(
                aimed_candidates(world.optimized, world.alpha, families=("mix",)),
                safe=world.safe,
                contexts=rows.contexts,
                actions=rows.actions,
                losses=rows.losses,
                rewards=rows.rewards,
                alpha=world.alpha,
                rng=rng,
                logged_by=logged_by,
            )
            return choice.policy, str(choice.family), choice.name

        return self.deploy(improve)

    def deploy(self, improve: Improve) -> Deployed:
        """All rounds; the true risk and reward of what the last one deploys."""
        world, rng = self.world, np.random.default_rng(self.seed)
        deployed: list[Any] = [world.safe]
        training: list[Rows] = []
        calibration: list[Rows] = []
        for _ in range(ROUNDS):
            training.append(world.training.collect(deployed[-1], self.rows, rng))
            calibration.append(world.population.collect(deployed[-1], self.rows, rng))
            logged_by = tether.Mixture(deployed, np.ones(len(deployed)))
            policy, family, note = improve(_joined(training), logged_by, rng)
            rows = _joined(calibration)
            log = tether.make_log(
                world.safe,
                policy,
                rows.contexts,
                rows.actions,
                rows.losses,
                logged_by=logged_by,
                safe_share=deployed.count(world.safe) / len(deployed),
            )
            found = tether.calibrate(log, alpha=world.alpha, family=family)
            deployed.append(tether.Tethered(world.safe, policy, found))
        return Deployed(*_outcome(world.population, deployed[-1]), found, note)


def _joined(parts: list[Rows]) -> Rows:
    names = ("contexts", "actions", "losses", "rewards")
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _outcome(population: Population, policy: Any) -> tuple[float, float]:
    return population.outcome(population.table(policy))
