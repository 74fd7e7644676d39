"""A path of policies built against a test weight that is taken from draws at a few of its betas.

Actions are 0, harmless; 1, harmful and ever likelier along the path; and one *trap* for each beta
between those of a coarse grid. The policy at such a beta takes its own trap with some probability,
no other policy does, and the safe one hardly ever: a trap is harmful and weighs 10⁹ times as much
as other actions. So no log has one, and draws at the betas of the coarse grid have none either.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import tether
from tether.control import PolicyPath

TRAP_SHARE = 1e-9
"""The safe policy's probability of each trap, times one over the trap's own."""


@dataclass(frozen=True)
class TrapPath:
    """A path with so many betas, of which every `coarse`-th has no trap."""

    trap: float = 0.2
    betas: int = 33
    coarse: int = 8
    safe_risk: float = 0.04
    largest_risk: float = 0.2

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"traps between every {self.coarse}th beta, {self.trap:g}"

    @cached_property
    def models(self) -> np.ndarray:
        """The safe policy, and that of every beta and of the end (policies × actions)."""
        count = self.betas + 1
        risk = np.linspace(self.safe_risk, self.largest_risk, count + 1)
        trap = np.where(np.arange(count) % self.coarse == 0, 0.0, self.trap)
        found = np.zeros((count + 1, 2 + count))
        found[:, 1] = risk
        found[0, 2:] = TRAP_SHARE * trap
        found[1:, 1] *= 1 - trap
        found[np.arange(count) + 1, np.arange(count) + 2] = trap
        found[:, 0] = 1 - found[:, 1:].sum(axis=1)
        return found

    @property
    def log_betas(self) -> np.ndarray:
        """The log betas of the path; they mean nothing here but their order."""
        return np.arange(float(self.betas))

    def risk(self, log_beta: float) -> float:
        """The probability that the policy at a beta takes a harmful action."""
        place = 0 if log_beta == -np.inf else min(log_beta, self.betas) + 1
        return float(1 - self.models[int(place), 0])

    def make_log(self, rows: int, rng: np.random.Generator) -> tether.Log:
        """Rows of the safe policy."""
        actions = rng.choice(self.models.shape[1], size=rows, p=self.models[0])
        table = self._table(actions)
        path = PolicyPath("token_clip", self.log_betas, table[:, 1:-1])
        return tether.Log((actions > 0).astype(float), table[:, 0], table[:, -1], policy_path=path)

    def make_proposals(
        self, draws: int, rng: np.random.Generator, *, everywhere: bool = True
    ) -> tether.Proposals:
        """Draws at every beta; or, wrongly, at the next one of the coarse grid instead."""
        at = np.arange(self.betas + 1)
        drawn_by = at if everywhere else np.minimum(-(-at // self.coarse) * self.coarse, self.betas)
        actions = np.concatenate(
            [
                rng.choice(self.models.shape[1], size=draws, p=self.models[place + 1])
                for place in drawn_by
            ]
        )
        table, levels = self._table(actions), np.append(self.log_betas, np.inf)
        path = PolicyPath(
            "token_clip", self.log_betas, table[:, 1:-1], drawn_at=np.repeat(levels, draws)
        )
        return tether.Proposals(table[:, 0], table[:, -1], policy_path=path)

    def _table(self, actions: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.models[:, actions].T)
