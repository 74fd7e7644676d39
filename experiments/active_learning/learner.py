"""One learner: acquire records one by one, each from a policy between safe and curious."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tether
from experiments.active_learning.surrogate import Surrogate, fitted, log_feasibility
from experiments.active_learning.worlds import World

COLUMNS = ("risk", "log_beta", "error", "error_of_all")


METHODS = ("safe only", "unconstrained", "clip", "clip, aimed")
"""`clip` is the paper's; `aimed` tilts the optimized policy away from what is predicted to be
infeasible, as far as alpha asks for."""


class Learner:
    """A training set, a calibration log, and the mixture of the policies that produced the log."""

    def __init__(
        self, world: World, alpha: float, settings: Mapping[str, Any], rng: np.random.Generator
    ) -> None:
        self.world, self.alpha, self.settings, self.rng = world, alpha, settings, rng
        self.actions = world.safe.sample(settings["initial"], rng)
        self.observed = world.observe(self.actions, settings, rng)
        split = int(np.floor(settings["initial"] * settings["train_share"]))
        self.trains = np.arange(len(self.actions)) < split
        self.safe_rows = len(self.actions) - split
        self.log_mix = world.safe.log_prob_all(1)[0]
        start = (settings["constant"], settings["noise"])
        features, labels = world.features[self.actions], self.observed
        if settings["fitted"]:
            self.surrogate = fitted(features[:split], labels[:split], *start)
        else:
            self.surrogate = Surrogate(*start)
            self.surrogate.add(features[:split], labels[:split])
        self.all_labels = Surrogate(self.surrogate.constant, self.surrogate.noise)
        self.all_labels.add(features, labels)

    def curious(self) -> tether.Pool:
        """The optimized policy: towards the surrogate's variance.

        It has seen the training rows only; the calibration log is fresh to it.
        """
        variance = self.surrogate.variance(self.world.features)
        return tether.Pool(self.settings["curiosity"] * variance / np.ptp(variance))

    def aimed(self) -> tether.Policy:
        """The optimized policy, tilted until its predicted risk is alpha; by training rows."""
        world, taken = self.world, self.actions[self.trains]
        log_feasible = log_feasibility(world.scaled[taken], world.infeasible[taken], world.scaled)
        predicted = -np.expm1(log_feasible)
        plain = self.curious()
        return tether.aim(plain, lambda _, actions: predicted[actions], 1, self.alpha).policy

    def calibrate(self, optimized: tether.Pool) -> tether.Calibration:
        """Beta from the calibration log, whose rows several policies produced."""
        safe, taken = self.world.safe, self.actions[~self.trains]
        drawn = [policy.sample(self.settings["draws"], self.rng) for policy in (safe, optimized)]
        # Every candidate's score is at hand, which is quicker than asking the policies again.
        tables = (safe.log_prob_all(1)[0], optimized.log_prob_all(1)[0], self.log_mix)
        rows = [table[taken] for table in tables]
        scores = [table[np.concatenate(drawn)] for table in tables]
        log = tether.Log(
            self.world.infeasible[taken],
            *rows[:2],
            log_mix=rows[2],
            safe_share=self.safe_rows / len(taken),
        )
        source = np.repeat(["safe", "optimized"], self.settings["draws"])
        proposals = tether.Proposals(*scores[:2], log_mix=scores[2], source=source)
        return tether.calibrate(log, proposals, alpha=self.alpha)

    def risk(self, policy: Any) -> float:
        """The risk of a policy: a sum over the pool."""
        return float(np.exp(policy.log_prob_all(1)[0]) @ self.world.infeasible)

    def acquire(self, policy: Any) -> None:
        """Label one record that the policy picks, and keep it for training or calibration."""
        action = policy.sample(1, self.rng)
        label = self.world.observe(action, self.settings, self.rng)
        row = self.world.features[action]
        self.all_labels.add(row, label)
        trains = self.rng.random() < self.settings["train_probability"]
        if trains:
            self.surrogate.add(row, label)
        else:
            rows = np.count_nonzero(~self.trains)
            columns = [self.log_mix, policy.log_prob_all(1)[0]]
            self.log_mix = tether.control.mixture_log_density(columns, [rows, 1])
        self.actions = np.append(self.actions, action)
        self.trains = np.append(self.trains, trains)

    def errors(self) -> tuple[float, float]:
        """Test mean squared error: of the training rows' model, and of the model of all labels."""
        asked, truth = self.world.test_features, self.world.test_labels
        return tuple(
            float(np.mean((model.mean(asked) - truth) ** 2))
            for model in (self.surrogate, self.all_labels)
        )


def learn(
    world: World, name: str, alpha: float, settings: Mapping[str, Any], seed: int
) -> NDArray[np.float64]:
    """One row an iteration, the first before any, with the columns of `COLUMNS`.

    The risk is the deployed policy's own, a sum over the pool; `log_beta` is −inf where the safe
    policy alone is served.
    """
    learner = Learner(world, alpha, settings, np.random.default_rng([seed, 1]))
    rows = [(np.nan, np.nan, *learner.errors())]
    for _ in range(settings["iterations"]):
        log_beta, policy = _policy(learner, name)
        risk = learner.risk(policy)
        learner.acquire(policy)
        rows.append((risk, log_beta, *learner.errors()))
    return np.array(rows)


def _policy(learner: Learner, method: str) -> tuple[float, tether.Policy]:
    safe = learner.world.safe
    if method == "safe only":
        return -np.inf, safe
    optimized = learner.aimed() if method == "clip, aimed" else learner.curious()
    if method == "unconstrained":
        return np.inf, optimized
    found = learner.calibrate(optimized)
    return found.log_beta, tether.Tethered(safe, optimized, found)
