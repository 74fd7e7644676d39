"""One learner: acquire records one by one, each from a policy between safe and curious."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tether
from experiments.active_learning.surrogate import Surrogate, fitted, log_feasibility
from experiments.active_learning.worlds import World
from experiments.shortlist_rounds import ShortlistRounds
from tether.policies import TetheredShortlist

COLUMNS = ("risk", "log_beta", "error", "error_of_all", "alarm")


@dataclass(frozen=True)
class Method:
    """How a learner picks: where beta comes from, its family, and whether it minds the risk.

    `train_share` is the part of the initial rows that trains, where it is not the design's. An
    `aimed` policy is tilted until its predicted risk is alpha. `shortlist`: records are picked from
    candidates that the safe policy draws.
    """

    beta: str
    family: str = "clip"
    aware: bool = False
    train_share: float | None = None
    aimed: bool = False
    shortlist: bool = False


METHODS = {
    "safe only": Method("none"),
    "unconstrained": Method("all"),
    "clip": Method("calibrated"),
    "mix": Method("calibrated", family="mix"),
    "clip, half": Method("calibrated", train_share=0.5),
    "clip, aware": Method("calibrated", aware=True),
    "clip, aimed": Method("calibrated", aimed=True),
    "shortlist, aimed": Method("calibrated", aimed=True, shortlist=True),
    "online": Method("online"),
}
"""`clip` is the paper's. `half` calibrates on half of the initial rows; `aware` proposes what looks
uncertain *and* feasible; `aimed` tilts the policy away from predicted infeasibility as far as alpha
asks for; `shortlist` picks from candidates of the safe policy. `online` moves beta with each
loss (conformal decision theory)."""


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
        self.shortlists = ShortlistRounds(world.safe, settings["shortlist_size"])
        self.all_labels = Surrogate(self.surrogate.constant, self.surrogate.noise)
        self.all_labels.add(features, labels)

    def curious(self, aware: bool) -> tether.Pool:
        """The optimized policy: towards the surrogate's variance, and towards what looks feasible.

        It has seen the training rows only; the calibration log is fresh to it.
        """
        world = self.world
        variance = self.surrogate.variance(world.features)
        scores = self.settings["curiosity"] * variance / np.ptp(variance)
        if aware:
            taken = self.actions[self.trains]
            scores = scores + self.settings["awareness"] * log_feasibility(
                world.scaled[taken], world.infeasible[taken], world.scaled
            )
        return tether.Pool(scores)

    def aimed(self) -> tether.Policy:
        """The optimized policy, tilted until its predicted risk is alpha; by training rows."""
        world, taken = self.world, self.actions[self.trains]
        log_feasible = log_feasibility(world.scaled[taken], world.infeasible[taken], world.scaled)
        predicted = -np.expm1(log_feasible)
        plain = self.curious(aware=False)
        return tether.aim(plain, lambda _, actions: predicted[actions], 1, self.alpha).policy

    def calibrate(self, optimized: tether.Pool, family: str) -> tether.Calibration:
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
        return tether.calibrate(log, proposals, alpha=self.alpha, family=family)

    def calibrate_shortlist(self, optimized: tether.Policy) -> TetheredShortlist:
        """The tethered shortlist, whose rows keep the candidates that they were picked from."""
        if not self.shortlists.picks:
            self.shortlists.begin(self.actions[~self.trains], self.rng)
        return self.shortlists.calibrate(optimized, self.alpha, self.world.infeasible)

    def risk(self, policy: Any) -> float:
        """The risk of a policy: a sum over the pool; over many drawn shortlists if it has those."""
        if not isinstance(policy, TetheredShortlist):
            return float(np.exp(policy.log_prob_all(1)[0]) @ self.world.infeasible)
        draws = np.random.default_rng(0)
        rows = policy.shortlist.draw(self.settings["shortlist_draws"], draws)
        chance = np.exp(policy.pick.log_prob_all(rows))
        return float((chance * self.world.infeasible[rows.candidates]).sum(axis=1).mean())

    def acquire(self, policy: Any) -> float:
        """Label one record that the policy picks, and keep it for training or calibration."""
        picked: tuple[Any, ...] = ()
        if isinstance(policy, TetheredShortlist):
            action, *picked = policy.sample_with_rows(1, self.rng)
        else:
            action = policy.sample(1, self.rng)
        label = self.world.observe(action, self.settings, self.rng)
        row = self.world.features[action]
        self.all_labels.add(row, label)
        trains = self.rng.random() < self.settings["train_probability"]
        if trains:
            self.surrogate.add(row, label)
        elif picked:
            self.shortlists.keep(policy, *picked)
        else:
            rows = np.count_nonzero(~self.trains)
            columns = [self.log_mix, policy.log_prob_all(1)[0]]
            self.log_mix = tether.control.mixture_log_density(columns, [rows, 1])
        self.actions = np.append(self.actions, action)
        self.trains = np.append(self.trains, trains)
        return float(self.world.infeasible[action[0]])

    def alarms(self) -> NDArray[np.bool_]:
        """Whether a monitor of every loss, training rows' too, had raised an alarm by each row."""
        report = tether.monitor.RiskMonitor(self.alpha).update(self.world.infeasible[self.actions])
        never = len(self.actions) + 1
        return np.arange(1, never) >= (report.alarm_at or never)

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
    policy alone is served; `alarm` says whether the monitor has raised one by then.
    """
    method = METHODS[name]
    if method.train_share is not None:
        settings = {**settings, "train_share": method.train_share}
    learner = Learner(world, alpha, settings, np.random.default_rng([seed, 1]))
    rows = [(np.nan, np.nan, *learner.errors())]
    online = 0.0
    for _ in range(settings["iterations"]):
        log_beta, policy = _policy(learner, method, online)
        risk = learner.risk(policy)
        loss = learner.acquire(policy)
        online += settings["online_step"] * (alpha - loss)
        rows.append((risk, log_beta, *learner.errors()))
    return np.column_stack([rows, learner.alarms()[settings["initial"] - 1 :]])


def _policy(learner: Learner, method: Method, online: float) -> tuple[float, tether.Policy]:
    safe = learner.world.safe
    if method.beta == "none":
        return -np.inf, safe
    optimized = learner.aimed() if method.aimed else learner.curious(method.aware)
    if method.beta == "all":
        return np.inf, optimized
    if method.beta == "online":
        return online, tether.Tethered(safe, optimized, float(np.exp(online)))
    if method.shortlist:
        served = learner.calibrate_shortlist(optimized)
        return served.pick.log_beta, served
    found = learner.calibrate(optimized, method.family)
    return found.log_beta, tether.Tethered(safe, optimized, found)
