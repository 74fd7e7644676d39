"""What later rounds have to know of earlier ones: deployed policies, and rows scored under them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import tether
from experiments.ehrlich.policy import Prompted
from experiments.ehrlich.stock import Stocked
from tether.control.families import find_family

Floats = NDArray[np.float64]
Actions = NDArray[np.int64]


@dataclass(frozen=True)
class Served:
    """One round's deployed policy; without an optimized one it was the safe policy."""

    optimized: Prompted | None
    family: str
    log_beta: float
    log_psi: float

    def log_density(self, log_safe: Floats, log_optimized: Floats | None) -> Floats:
        """The deployed density, with its own beta and normalizer."""
        if log_optimized is None:
            return log_safe
        family = find_family(self.family)
        return family.log_density(log_safe, log_optimized, self.log_beta, self.log_psi)


@dataclass(frozen=True)
class Rows:
    """Actions with their losses and log-probabilities under the safe and every past model."""

    actions: Actions
    loss: Floats
    log_safe: Floats
    log_past: tuple[Floats | None, ...]
    """One for each deployed policy; none for the safe one."""

    @classmethod
    def scored(cls, safe: Stocked, served: list[Served], actions: Actions, loss: Floats) -> Rows:
        """New rows under everything that has been deployed."""
        past = tuple(
            None if each.optimized is None else each.optimized.log_prob(None, actions)
            for each in served
        )
        return cls(actions, loss, safe.log_prob(None, actions), past)

    def scored_too(self, log_optimized: Floats | None) -> Rows:
        """The same rows with the scores of one more deployed policy."""
        return Rows(self.actions, self.loss, self.log_safe, (*self.log_past, log_optimized))

    def joined(self, other: Rows) -> Rows:
        """Both sets of rows."""
        past = tuple(
            None if one is None or two is None else np.concatenate([one, two])
            for one, two in zip(self.log_past, other.log_past, strict=True)
        )
        return Rows(
            np.concatenate([self.actions, other.actions]),
            np.concatenate([self.loss, other.loss]),
            np.concatenate([self.log_safe, other.log_safe]),
            past,
        )

    def log_mix(self, served: list[Served], counts: list[int]) -> Floats:
        """Under the mixture of all that was deployed, by the rows that each produced."""
        columns = [
            each.log_density(self.log_safe, past)
            for each, past in zip(served, self.log_past, strict=True)
        ]
        return tether.control.mixture_log_density(columns, counts)


def log_acceptance(log_beta: float | Floats, log_safe: Floats, log_optimized: Floats) -> Floats:
    """Log of ψ(β)/min(β, 1), the share of draws that accept-reject keeps, at each beta.

    From draws of which half came from either policy: a draw counts its kernel over the sum of both
    densities times half the draws.
    """
    log_beta = np.atleast_1d(np.asarray(log_beta, dtype=np.float64))
    log_mass = np.logaddexp(log_safe, log_optimized) + np.log(len(log_safe) / 2)
    kernel = np.minimum(log_optimized, log_beta[:, None] + log_safe) - log_mass
    log_share = np.logaddexp.reduce(kernel, axis=1) - np.minimum(log_beta, 0.0)
    return np.minimum(log_share, 0.0)


def affordable(log_beta: float, log_safe: Floats, log_optimized: Floats, draws: float) -> float:
    """The largest log beta up to `log_beta` that takes at most `draws` draws an action.

    Every smaller beta passes where one passes, so that less may always be served. The draws alone
    say what is affordable, not the log.
    """
    ratio = log_optimized - log_safe
    steps = np.quantile(ratio, np.linspace(0, 1, 513))
    grid = np.unique(np.minimum(steps, log_beta))
    cheap = log_acceptance(grid, log_safe, log_optimized) >= -np.log(draws)
    if cheap[-1]:
        return log_beta
    return float(grid[cheap].max(initial=ratio.min()))
