"""The rounds of one run: improve by preference, control, deploy, observe.

Arms differ in who controls: nobody, a ramp (`tether.Controller` with family="ramp", which needs no
log-probabilities), or clip and mix by likelihood ratios (`weighted.py`). Aimed arms avoid what
training rows make suspect; predictions only aim, and alpha is kept whatever they are.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.ehrlich.function import Sequences
from experiments.ehrlich.policy import Prompted
from experiments.ehrlich.start import Start
from experiments.ehrlich.train import improve
from tether.runs import Controller


@dataclass(frozen=True)
class Aimed:
    """Of a few draws of a policy, the first with the fewest neighbours that were never seen.

    `seen` says which state stood after which in a feasible training row. The draws are alike before
    they are looked at, so this is the policy without what is suspected, as far as draws go.
    """

    policy: Prompted
    seen: NDArray[np.bool_]
    draws: int

    @classmethod
    def learn(cls, policy: Prompted, training: Sequences, draws: int) -> Aimed:
        """From actions that may be trained on."""
        function = policy.language.function
        feasible = training[np.isfinite(function(training))]
        seen = np.zeros((function.states,) * 2, dtype=bool)
        seen[feasible[:, :-1], feasible[:, 1:]] = True
        return cls(policy, seen, draws)

    def suspicion(self, actions: Sequences) -> NDArray[np.int64]:
        """How many neighbours in each action were not seen."""
        return np.asarray((~self.seen[actions[:, :-1], actions[:, 1:]]).sum(axis=1))

    def sample(self, contexts: Any, rng: np.random.Generator) -> Sequences:
        """So many actions as `contexts` says, which is a number."""
        count = int(contexts)
        drawn = self.policy.sample(count * self.draws, rng)
        suspicion = self.suspicion(drawn).reshape(count, self.draws)
        return drawn.reshape(count, self.draws, -1)[np.arange(count), suspicion.argmin(axis=1)]


class Run:
    """One arm, alpha and seed: what has been deployed and seen so far; without control."""

    def __init__(
        self, start: Start, settings: Mapping[str, Any], labels: Mapping[str, Any]
    ) -> None:
        self.start, self.settings, self.labels = start, settings, labels
        arm, alpha, seed = (labels[key] for key in ("arm", "alpha", "seed"))
        self.function, self.aims = start.language.function, arm.startswith("aimed")
        self.rng = np.random.default_rng([seed, round(1000 * alpha), *arm.encode()])
        self.table: list[dict[str, Any]] = []
        """What is reported, one row a round."""
        self.training: list[Sequences] = []
        """Actions that may be trained on, one array a round."""
        self.current = start.safe.policy
        """The optimized policy of the last round."""
        self.base = start.model
        """Where DPO starts."""

    def step(self) -> None:
        """The next round; the first, number 0, deploys the safe policy."""
        began, row = time.time(), {**self.labels, "round": len(self.table)}
        if self.table:
            if self.takes_new():
                past = np.concatenate(self.training)
                self.current, row["dpo_loss"] = improve(
                    *(self.base, self.start.language, self.start.seeds, self.settings),
                    *(past, self.training[-1], self.rng),
                )
                self.begin()
            actions = self.deploy(self.settings["sample"], row)
        else:
            actions = self.deploy_safe(self.settings["first_sample"])
        base = self.labels["dpo_from"]
        if base == "last" or (base == "served" and self.table and self.passed(row)):
            self.base = self.current.model
        values = self.function(actions)
        best = max((each["best"] for each in self.table), default=-np.inf)
        row["infeasible"] = float(np.isneginf(values).mean())
        row["objective"] = float(np.maximum(values, 0).mean())
        row["best"] = float(max(best, values.max()))
        row["seconds"] = time.time() - began
        self.table.append(row)

    def policy(self) -> Prompted | Aimed:
        """What is released: the optimized policy, aimed if the arm aims."""
        if not self.aims:
            return self.current
        past = np.concatenate(self.training)
        return Aimed.learn(self.current, past, self.settings["aimed_draws"])

    def keep(self, actions: Sequences, calibration: float) -> NDArray[np.bool_]:
        """Set part of the actions apart for training; True for those that are for calibration."""
        chosen = np.zeros(len(actions), dtype=bool)
        chosen[self.rng.permutation(len(actions))[: round(calibration * len(actions))]] = True
        self.training.append(actions[~chosen])
        return chosen

    # ---- what control decides ---------------------------------------------------------------

    def takes_new(self) -> bool:
        """Whether a new policy is made in this round."""
        return True

    def begin(self) -> None:
        """A new policy was made."""

    def deploy_safe(self, count: int) -> Sequences:
        """The first round."""
        actions = self.start.safe.sample(count, self.rng)
        self.keep(actions, self.settings["ramp_calibration_share"])  # as many as in a ramp
        return actions

    def deploy(self, count: int, row: dict[str, Any]) -> Sequences:
        """So many actions of a later round."""
        actions = self.policy().sample(count, self.rng)
        self.keep(actions, self.settings["ramp_calibration_share"])
        return actions

    def passed(self, row: Mapping[str, Any]) -> bool:
        """Whether the optimized policy was let through."""
        return True


class RampRun(Run):
    """The share of each new policy grows with its own rows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.steps = 0
        """How many steps the current policy has had."""
        step = self.settings["sample"] // self.settings["ramp_steps"]
        self.control = Controller(
            self.start.safe.policy,
            "sqlite://",
            alpha=self.labels["alpha"],
            family=f"ramp({step})",
            against="last",
            stop=self.settings["ramp_stop"] or None,
            calibration_share=self.settings["ramp_calibration_share"],
            max_silence=None,
            seed=self.labels["seed"],
        )

    def takes_new(self) -> bool:
        """Whether the current policy reached a share of 1, was stopped, or had enough steps."""
        return self.control.round.share in (0, 1) or self.steps >= self.settings["ramp_patience"]

    def begin(self) -> None:
        """The ramp of a new policy."""
        if self.control.history().alarm:
            self.control.resume("a new policy begins", actor="experiment")
        self.control.begin(self.policy())
        self.steps = 0

    def deploy_safe(self, count: int) -> Sequences:
        """The first round of the controller."""
        self.control.begin()
        return self._act(count, 1)

    def deploy(self, count: int, row: dict[str, Any]) -> Sequences:
        """A few steps."""
        steps = self.settings["ramp_steps"]
        actions = self._act(count, steps)
        self.steps += steps
        row["share"] = self.control.round.share
        return actions

    def passed(self, row: Mapping[str, Any]) -> bool:
        """Whether the policy reached a share of 1."""
        return bool(row["share"] == 1)

    def _act(self, count: int, steps: int) -> Sequences:
        """Take so many actions in a few steps, report losses, and see what may be trained on."""
        before, taken = sum(map(len, self.training)), []
        for _ in range(steps):
            step = self.control.round.act(count // steps, self.rng)
            values = self.function(step.actions)
            rewards = np.maximum(values, 0)
            self.control.observe(step.ids, np.isneginf(values) * 1.0, rewards=rewards)
            taken.append(np.asarray(step.actions))
        self.training.append(self.control.training_rows().actions[before:])
        return np.concatenate(taken)
