"""The rounds without control: each round's policy takes all actions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.ehrlich.feasibility import aimed
from experiments.ehrlich.improve import improve
from experiments.ehrlich.outcome import outcome
from experiments.ehrlich.rows import Actions
from experiments.ehrlich.start import Start


class FreeRun:
    """One (arm, seed) at an alpha of 1, which tolerates every loss."""

    def __init__(
        self, start: Start, settings: Mapping[str, Any], arm: str, seed: int, *, aims: bool
    ) -> None:
        self.start, self.settings, self.aims = start, settings, aims
        self.labels = {"arm": arm, "alpha": 1.0, "seed": seed}
        self.rng = np.random.default_rng([seed, 4, aims])
        self.table: list[dict[str, Any]] = []
        self.current = start.safe.policy
        self.training: list[Actions] = []
        """The part of each round's actions that may be trained on, as large as in a ramp."""

    def step(self) -> None:
        """The next round; the first, number 0, deploys the safe policy."""
        began = time.time()
        row: dict[str, Any] = {**self.labels, "round": len(self.table), "draws": 1.0}
        if not self.table:
            actions = self.current.sample(self.settings["first_sample"], self.rng)
        else:
            past, last = np.concatenate(self.training), self.training[-1]
            self.current, row["dpo_loss"] = improve(
                self.current.model, self.start, self.settings, past, last, self.rng
            )
            policy = aimed(self.current, past, self.settings) if self.aims else self.current
            actions = policy.sample(self.settings["sample"], self.rng)
            row |= {"share": 1.0, "draws": self.settings["aimed_draws"] if self.aims else 1.0}
        kept = self.rng.permutation(len(actions))
        share = 1 - self.settings["ramp_calibration_share"]
        self.training.append(actions[kept[: round(share * len(actions))]])
        row |= outcome(self.start.language, actions, self.table)
        row["seconds"] = time.time() - began
        self.table.append(row)
