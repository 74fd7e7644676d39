"""The rounds of a ramp: improve, aim, and let the new policy's share grow with its own rows.

Control is `tether.Controller` with family="ramp". It asks for no log-probabilities, so the new
policy may be far from the one before, and aiming may use any way of drawing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import tether
from experiments.ehrlich.feasibility import aimed
from experiments.ehrlich.improve import improve
from experiments.ehrlich.outcome import outcome
from experiments.ehrlich.rows import Actions
from experiments.ehrlich.start import Start


class RampRun:
    """One (arm, alpha, seed): what has been deployed and seen so far."""

    def __init__(
        self,
        start: Start,
        settings: Mapping[str, Any],
        arm: str,
        alpha: float,
        seed: int,
        *,
        aims: bool,
    ) -> None:
        self.start, self.settings, self.aims = start, settings, aims
        self.labels = {"arm": arm, "alpha": alpha, "seed": seed}
        self.rng = np.random.default_rng([seed, 3, round(1000 * alpha), aims])
        self.table: list[dict[str, Any]] = []
        self.safe = start.safe.policy
        self.current = self.safe
        """The optimized policy of the last round."""
        self.model = start.model
        """Where DPO starts: the last model that reached a share of 1."""
        self.steps = 0
        """How many steps the current policy has had."""
        self.trained = 0
        """How many training rows there were when it was made."""
        self.run = tether.Controller(
            self.safe,
            store="sqlite://",
            alpha=alpha,
            family="ramp",
            against="last",
            calibration_share=settings["ramp_calibration_share"],
            actions_per_step=settings["sample"] // settings["ramp_steps"],
            max_silence=None,
            seed=seed,
        )

    def step(self) -> None:
        """The next round; the first, number 0, deploys the safe policy."""
        began = time.time()
        row: dict[str, Any] = {**self.labels, "round": len(self.table), "draws": 1.0}
        if not self.table:
            self.run.begin()
            actions = self._act(self.settings["first_sample"])
        else:
            if self._is_over():
                row["dpo_loss"] = self._improve()
            row["first_share"] = self.run.round.share
            steps, sample = self.settings["ramp_steps"], self.settings["sample"]
            actions = np.concatenate([self._act(sample // steps) for _ in range(steps)])
            self.steps += steps
            row["share"] = self.run.round.share
            if row["share"] == 1:
                self.model = self.current.model
            row["draws"] = self.settings["aimed_draws"] if self.aims else 1.0
        row |= outcome(self.start.language, actions, self.table)
        row["seconds"] = time.time() - began
        self.table.append(row)

    def _is_over(self) -> bool:
        """Whether the current policy has had its chance: it reached a share of 1, or enough steps.

        So has the safe policy, with which the run begins.
        """
        return self.run.round.share in (0, 1) or self.steps >= self.settings["ramp_patience"]

    def _improve(self) -> float:
        """Make a new policy from training rows alone, and begin its ramp."""
        if self.run.history().alarm:
            self.run.resume("a new policy begins", actor="experiment")
        actions = self.run.training_rows().actions
        last, self.trained = actions[self.trained :], len(actions)
        self.current, loss = improve(self.model, self.start, self.settings, actions, last, self.rng)
        self.run.begin(aimed(self.current, actions, self.settings) if self.aims else self.current)
        self.steps = 0
        return loss

    def _act(self, count: int) -> Actions:
        """Take so many actions, and report the losses."""
        taken = self.run.round.act(count, self.rng)
        values = self.start.language.values(taken.actions)
        self.run.observe(taken.ids, np.isneginf(values).astype(float), np.maximum(values, 0))
        return taken.actions
