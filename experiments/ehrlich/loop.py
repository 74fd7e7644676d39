"""The rounds: improve by preference, calibrate, deploy, observe."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tether
from experiments.ehrlich.improve import improve
from experiments.ehrlich.model import Transformer
from experiments.ehrlich.outcome import outcome
from experiments.ehrlich.policy import Prompted
from experiments.ehrlich.rows import Actions, Floats, Rows, Served, affordable, log_acceptance
from experiments.ehrlich.start import Start
from experiments.ehrlich.stock import Stocked


@dataclass
class Run:
    """One (arm, alpha, seed): what has been deployed and seen so far."""

    start: Start
    settings: Mapping[str, Any]
    arm: str
    family: str
    alpha: float
    seed: int
    rng: np.random.Generator
    safe: Stocked = field(init=False)
    current: Prompted = field(init=False)
    """The optimized policy of the last round."""
    base: int = 0
    """The round whose model DPO starts from; round 0 has the safe one."""
    model: Transformer = field(init=False)
    """That model."""
    served: list[Served] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    """Calibration rows of each round."""
    rows: Rows | None = None
    """All calibration rows; none where nothing is controlled."""
    training: list[Actions] = field(default_factory=list)
    """Actions that may be trained on, one array a round."""
    table: list[dict[str, Any]] = field(default_factory=list)
    """What is reported, one row a round."""

    @classmethod
    def begin(
        cls, start: Start, settings: Any, family: str, alpha: float, seed: int, arm: str = ""
    ) -> Run:
        """Nothing deployed yet; the arm has the name of the family unless it has its own."""
        stream = [seed, 2, round(1000 * alpha), *family.encode()]
        return cls(
            start, settings, arm or family, family, alpha, seed, np.random.default_rng(stream)
        )

    def __post_init__(self) -> None:
        self.safe = self.start.safe
        self.current = self.safe.policy
        self.model = self.current.model

    @property
    def controlled(self) -> bool:
        """An alpha of one tolerates every loss: nothing is calibrated."""
        return self.alpha < 1

    def step(self) -> None:
        """The next round; the first, number 0, deploys the safe policy."""
        began = time.time()
        row: dict[str, Any] = {"arm": self.arm, "alpha": self.alpha, "seed": self.seed}
        row |= {"round": len(self.table), "exists": True, "limited": False, "draws": 1.0}
        log_optimized = None
        if not self.table:
            row |= {"log_beta": -np.inf, "log_psi": 0.0}
            actions = self.safe.sample(self.settings["first_sample"], self.rng)
        else:
            row["dpo_loss"] = self._improve()
            if self.controlled:
                log_optimized = self._calibrate(row)
                actions = self._deploy(row)
            else:
                row |= {"log_beta": np.inf, "log_psi": 0.0}
                actions = self.current.sample(self.settings["sample"], self.rng)
                row["drift"] = self._drift(actions)
        optimized = self.current if self.table and row["exists"] else None
        self.served.append(Served(optimized, self.family, row["log_beta"], row["log_psi"]))
        self._observe(actions, None if optimized is None else log_optimized, row)
        if self.settings["dpo_from"] == "last" or (optimized is not None and row["log_beta"] >= 0):
            self.base, self.model = len(self.table), self.current.model
        row["seconds"] = time.time() - began
        self.table.append(row)

    def _improve(self) -> float:
        """One epoch of DPO on pairs of the last round's actions that may be trained on."""
        self.current, loss = improve(
            self.model,
            self.start,
            self.settings,
            np.concatenate(self.training),
            self.training[-1],
            self.rng,
        )
        return loss

    def _drift(self, actions: Actions) -> float:
        """Nats between the optimized policy, whose actions these are, and the safe one."""
        log_safe = self.safe.log_prob(None, actions)
        return float((self.current.log_prob(None, actions) - log_safe).mean())

    def _calibrate(self, row: dict[str, Any]) -> Floats:
        """Find beta and its normalizer; returns the log's scores under the optimized policy.

        `allowed`, `risk` and `effective` are of the beta that calibration allows, `log_beta` and
        `log_psi` of what is served, which accept-reject may hold further back.
        """
        assert self.rows is not None
        count = self.settings["proposals"]
        drawn = [policy.sample(count, self.rng) for policy in (self.safe, self.current)]
        values = self.start.language.values(drawn[1])
        row["optimized_infeasible"] = float(np.isneginf(values).mean())  # told, not used
        actions = np.concatenate(drawn)
        fresh = Rows.scored(self.safe, self.served, actions, np.zeros(len(actions)))
        log_fresh = self.current.log_prob(None, actions)
        row["drift"] = float((log_fresh - fresh.log_safe)[count:].mean())  # from optimized draws
        log_optimized = self.current.log_prob(None, self.rows.actions)
        log = tether.Log(
            self.rows.loss,
            self.rows.log_safe,
            log_optimized,
            log_mix=self.rows.log_mix(self.served, self.counts),
        )
        proposals = tether.Proposals(
            fresh.log_safe,
            log_fresh,
            log_mix=fresh.log_mix(self.served, self.counts),
            source=np.repeat(["safe", "optimized"], count),
        )
        found = tether.calibrate(log, proposals, alpha=self.alpha, family=self.family)
        log_beta, log_psi = found.log_beta, 0.0
        if self.family == "clip" and found.exists:
            most = self.settings["most_draws"]
            log_beta = affordable(log_beta, fresh.log_safe, log_fresh, most)
            if np.isfinite(log_beta):
                log_psi = float(log_acceptance(log_beta, fresh.log_safe, log_fresh)[0])
                log_psi += min(log_beta, 0.0)
        row |= {"exists": found.exists, "limited": log_beta < found.log_beta}
        row |= {"log_beta": log_beta, "log_psi": log_psi, "allowed": found.log_beta}
        row |= {"risk": found.binding.risk if found.exists else np.nan}
        row |= {"effective": found.measured.effective_sample_size if found.exists else np.nan}
        return log_optimized

    def _deploy(self, row: dict[str, Any]) -> Actions:
        """What the tethered policy does; where no beta passes, the safe policy."""
        with np.errstate(over="ignore"):
            beta = float(np.exp(row["log_beta"]))
        policy = tether.Tethered(self.safe, self.current, beta, family=self.family)
        actions, info = policy.sample_with_info(self.settings["sample"], self.rng)
        row["draws"] = info.draws / info.actions
        return actions

    def _observe(self, actions: Actions, log_optimized: Floats | None, row: dict[str, Any]) -> None:
        """Split what was done into rows to train on and rows to calibrate on; and report."""
        values = self.start.language.values(actions)
        loss = np.isneginf(values).astype(float)
        calibration = np.zeros(len(actions), dtype=bool)
        count = round(self.settings["calibration_share"] * len(actions))
        calibration[self.rng.permutation(len(actions))[:count]] = True
        self.training.append(actions[~calibration])
        self.counts.append(count)
        if self.controlled:
            new = Rows.scored(self.safe, self.served, actions[calibration], loss[calibration])
            old = None if self.rows is None else self.rows.scored_too(log_optimized)
            self.rows = new if old is None else old.joined(new)
        row |= outcome(self.start.language, actions, self.table)
