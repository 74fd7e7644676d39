"""The methods of `benchmarks.power`: what is calibrated, by which family, from training rows.

The last three aim by loss models that are wrong on purpose. They may lose gain, never the promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import tether
from benchmarks.power_worlds import PowerWorld, Rows
from tether.aiming import aimed_candidates, fit_loss

SHORTLIST = 8
SHORTLIST_REPEATS = 5
"""How many candidate sets per context stand for all of them when a shortlist's risk is computed."""


@dataclass(frozen=True)
class Deployed:
    """The true risk and reward of what a method deployed, and the calibration that allowed it."""

    risk: float
    reward: float
    found: tether.Calibration
    note: str = ""


class Run:
    """One run of a world: training rows, calibration rows, and every method on them."""

    def __init__(self, world: PowerWorld, rows: int, rng: np.random.Generator) -> None:
        self.world, self.rng = world, rng
        self.training = world.training.collect(world.safe, rows, rng)
        self.rows = world.population.collect(world.safe, rows, rng)

    def clip(self) -> Deployed:
        """The optimized policy as it is."""
        return self.deploy(self.world.optimized)

    def mix(self) -> Deployed:
        """The same with mix."""
        return self.deploy(self.world.optimized, "mix")

    def shortlist(self) -> Deployed:
        """The optimized policy picks one of eight draws of the safe policy."""
        return self.deploy(tether.Shortlist(self.world.safe, self.world.optimized, size=SHORTLIST))

    def aimed(self) -> Deployed:
        """Clip, aimed by the default loss model."""
        return self.aim(self.loss_model, self.loss_model.kind)

    def chosen(self) -> Deployed:
        """Whatever earns most in simulated calibrations on the training rows."""
        world, rows = self.world, self.training
        candidates = aimed_candidates(
            world.optimized, world.alpha, families=("mix",), sizes=(SHORTLIST,)
        )
        choice = tether.choose(
            candidates,
            safe=world.safe,
            contexts=rows.contexts,
            actions=rows.actions,
            losses=rows.losses,
            rewards=rows.rewards,
            alpha=world.alpha,
            rng=self.rng,
        )
        return self.deploy(choice.policy, choice.family, note=choice.name)

    def inverted(self) -> Deployed:
        """Clip, aimed by a model that predicts the opposite."""
        return self.aim(self.fit(1 - self.training.losses))

    def constant(self) -> Deployed:
        """Clip, aimed by a model that predicts the same for all."""
        return self.aim(lambda contexts, actions: np.full(len(actions), 0.5))

    def shuffled(self) -> Deployed:
        """Clip, aimed by trees that were trained on shuffled losses."""
        from sklearn.ensemble import ExtraTreesRegressor

        rows, (codes, columns) = self.training, self.coded(self.training)
        model = ExtraTreesRegressor(10, min_samples_leaf=3, random_state=0)
        model.fit(columns, self.rng.permutation(rows.losses))
        return self.aim(lambda x, a: model.predict(_columns(x, a, codes)))

    @staticmethod
    def coded(rows: Rows) -> tuple[np.ndarray | None, np.ndarray]:
        """Numbers for actions that are text, and the features of the rows."""
        codes = np.unique(rows.actions) if rows.actions.dtype.kind == "U" else None
        return codes, _columns(rows.contexts, rows.actions, codes)

    @cached_property
    def loss_model(self) -> Any:
        """The default loss model."""
        return self.fit(self.training.losses)

    def fit(self, losses: np.ndarray) -> Any:
        """A loss model of the training rows with these losses, as `aimed_candidates` fits it."""
        rows, policies = self.training, (self.world.safe, self.world.optimized)
        return fit_loss(rows.contexts, rows.actions, losses, rng=self.rng, policies=policies)

    def aim(self, model: Any, note: str = "") -> Deployed:
        """Clip of the policy that is aimed by a loss model."""
        contexts = 1 if self.training.contexts is None else self.training.contexts
        aimed = tether.aim(self.world.optimized, model, contexts, self.world.alpha)
        return self.deploy(aimed.policy, note=note)

    def deploy(self, optimized: Any, family: str = "clip", note: str = "") -> Deployed:
        """Calibrate on the calibration rows; the true risk and reward of what is served."""
        world, rows = self.world, self.rows
        how = {"alpha": world.alpha, "family": family}
        if isinstance(optimized, tether.Shortlist):
            log = optimized.make_log(rows.contexts, rows.actions, rows.losses, self.rng)
            found = tether.calibrate(log, **how)
            return Deployed(*self.outcome_of_shortlist(optimized.tethered(found)), found, note)
        log = tether.make_log(world.safe, optimized, rows.contexts, rows.actions, rows.losses)
        proposals = None
        if rows.contexts is None:
            proposals = tether.make_proposals(
                world.safe, optimized, None, len(rows.actions), self.rng
            )
        found = tether.calibrate(log, proposals, **how)
        policy = tether.Tethered(world.safe, optimized, found)
        chances = world.population.table(policy)
        return Deployed(*world.population.outcome(chances), found, note)

    def outcome_of_shortlist(self, policy: Any) -> tuple[float, float]:
        """Risk and reward over random candidates: exact given these."""
        population = self.world.population
        who = np.arange(len(population.loss))
        repeats = SHORTLIST_REPEATS if population.contexts is not None else 2_000
        who = np.tile(who, repeats)
        contexts = len(who) if population.contexts is None else population.contexts[who]
        rows = policy.shortlist.draw(contexts, self.rng)
        chances = np.exp(policy.pick.log_prob_all(rows))
        columns = np.searchsorted(self.world.safe.actions, rows.candidates)
        return tuple(
            float((chances * table[who[:, None], columns]).sum() / len(who))
            for table in (population.loss, population.reward)
        )


def _columns(contexts: Any, actions: Any, codes: np.ndarray | None) -> np.ndarray:
    actions = np.asarray(actions)
    numbers = actions if codes is None else np.searchsorted(codes, actions)
    if contexts is None or isinstance(contexts, int):
        return numbers.reshape(-1, 1).astype(float)
    return np.column_stack([contexts, numbers])


METHODS = ("clip", "mix", "shortlist", "aimed", "chosen", "inverted", "constant", "shuffled")
