"""Finite worlds in which every expectation is a sum, and logs that look exactly like them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether


@dataclass(frozen=True)
class FiniteWorld:
    """Contexts that are equally likely; tables (contexts × actions) of policies and outcomes."""

    safe: np.ndarray
    optimized: np.ndarray
    other: np.ndarray
    reward: np.ndarray
    loss: np.ndarray
    counts: np.ndarray
    """How often each action occurs in the log in each context."""

    @classmethod
    def draw(cls, seed, contexts=3, actions=4, mixed=False):
        """A world whose log has each action exactly as often as it is expected."""
        rng = np.random.default_rng(seed)
        parts = [
            1 + rng.multinomial(96, rng.dirichlet(np.ones(actions)), size=contexts)
            for _ in range(2)
        ]
        size = 96 + actions
        safe, other = (each / size for each in parts)
        optimized = rng.dirichlet(np.ones(actions), size=contexts)
        reward = rng.normal(3, 2, (contexts, actions))
        harm = optimized / (optimized + safe)  # what the optimized policy prefers costs more
        loss = 0.7 * harm + 0.3 * rng.random((contexts, actions))
        counts = 5 * (parts[0] + parts[1] if mixed else parts[0])
        return cls(safe, optimized, other, reward, loss, counts)

    def log(self, tables=True, mixed=False, contextual=True):
        """The log in which every action occurs as often as it is expected."""
        context, action = (
            np.repeat(each.ravel(), self.counts.ravel()) for each in np.indices(self.counts.shape)
        )
        policies = {"log_safe": self.safe, "log_optimized": self.optimized}
        if mixed:
            policies["log_mix"] = (self.safe + self.other) / 2
        columns = {name: np.log(table[context, action]) for name, table in policies.items()}
        if tables:
            columns |= {f"{name}_all": np.log(table[context]) for name, table in policies.items()}
        return tether.Log(
            self.loss[context, action],
            **columns,
            context=context if contextual else None,
            reward=self.reward[context, action],
        )

    def alpha(self, level):
        """A tolerated loss between that of the safe policy (0) and of the optimized one (1)."""
        safe, optimized = (self.mean(each, self.loss) for each in (self.safe, self.optimized))
        return safe + level * (optimized - safe)

    def tethered(self, log_beta, family):
        """The table of the tethered policy, by the formulas of docs/explanation/control.md."""
        if np.isinf(log_beta):
            return self.safe if log_beta < 0 else self.optimized
        beta = np.exp(log_beta)
        if family == "mix":
            return (self.safe + beta * self.optimized) / (1 + beta)
        kernel = np.minimum(self.optimized, beta * self.safe)
        psi = kernel.sum(axis=1, keepdims=True)
        if family == "clip":
            return kernel / psi
        accepted = 1 - (1 - psi / min(beta, 1)) ** 4
        return accepted * kernel / psi + (1 - accepted) * self.safe

    def mean(self, policy, values):
        """The expectation of values under a policy."""
        return (policy * values).sum(axis=1).mean()

    def changed(self, policy):
        """The mean total variation distance to the safe policy."""
        return np.abs(policy - self.safe).sum(axis=1).mean() / 2

    def effective_rows(self, policy, mixed=False):
        """The effective sample size of the log for a policy."""
        logged = (self.safe + self.other) / 2 if mixed else self.safe
        weights = policy / logged
        return (self.counts * weights).sum() ** 2 / (self.counts * weights**2).sum()
