"""Shortlists over a few values of the action, so that every risk is a finite sum.

The safe policy draws rounded Gaussian actions. N candidates are then counts of the values, and the
expected loss of a policy that picks one of them is a sum over all counts. In half of the contexts
actions are harmless and the picker has almost no preference; in the others large actions harm, and
the picker prefers them strongly: one normalizing constant for all contexts would be wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, ndtr

import tether
from benchmarks.validity_table import Served
from tether.control.families import find_family

VALUES = np.array([-1.5, -0.5, 0.5, 1.5, 2.5])
CHANCES = np.diff(ndtr([-np.inf, -1, 0, 1, 2, np.inf]))
"""Of each value under the safe policy, in every context."""
PREFERENCE = np.array([0.3, 6.0])
"""How much the picker prefers large actions in harmless and in harmful contexts."""
ALPHA = 0.16


def draw(contexts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One action of the safe policy in each context."""
    return VALUES[rng.choice(len(VALUES), size=len(contexts), p=CHANCES)]


def score(contexts: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """What the picker prefers."""
    return PREFERENCE[contexts][:, None] * candidates


def losses(contexts: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Large actions harm, in half of the contexts; the safe policy's risk is 0.114."""
    return (contexts == 1) * np.clip((actions + 0.5) / 3, 0, 1)


@lru_cache
def compositions(size: int) -> tuple[np.ndarray, np.ndarray]:
    """All counts of the values among `size` candidates, and their probabilities."""
    bars = np.array(np.meshgrid(*[np.arange(size + 1)] * (len(VALUES) - 1))).reshape(4, -1).T
    bars = bars[bars.sum(axis=1) <= size]
    counts = np.column_stack((bars, size - bars.sum(axis=1)))
    log_ways = gammaln(size + 1) - gammaln(counts + 1).sum(axis=1)
    return counts, np.exp(log_ways + counts @ np.log(CHANCES))


def risk_of(scores: np.ndarray, harm: np.ndarray, size: int, family: str, log_beta: float) -> float:
    """The expected loss in a context, from the scores and the losses of the values."""
    counts, chance = compositions(size)
    with np.errstate(divide="ignore"):
        log_counts = np.log(counts)
    total = np.logaddexp.reduce(log_counts + scores, axis=1)[:, None]
    log_safe, log_picked = np.full(counts.shape, -np.log(size)), scores - total
    chosen, log_psi = find_family(family), np.zeros((len(counts), 1))
    if np.isfinite(log_beta) and not chosen.normalized:
        kernel = log_counts + chosen.log_kernel(log_safe, log_picked, log_beta)
        log_psi = np.logaddexp.reduce(kernel, axis=1)[:, None]
    density = np.exp(chosen.log_density(log_safe, log_picked, log_beta, log_psi))
    return float(chance @ (counts * density * harm).sum(axis=1))


@dataclass(frozen=True)
class ShortlistWorld:
    """A log of the safe policy, with candidates drawn beside its actions."""

    rows: int
    size: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"shortlists of {self.size}, n = {self.rows:,}"

    def collect(self, rng: np.random.Generator) -> tether.Log:
        """The log over positions."""
        contexts = rng.integers(2, size=self.rows)
        actions = draw(contexts, rng)
        shortlist = tether.Shortlist(draw, score, size=self.size)
        return shortlist.make_log(contexts, actions, losses(contexts, actions), rng)

    def served(self, found: tether.Calibration) -> list[Served]:
        """What a calibration deploys."""
        risks = [
            risk_of(
                PREFERENCE[context] * VALUES,
                losses(np.full(len(VALUES), context), VALUES),
                self.size,
                found.family,
                found.log_beta,
            )
            for context in (0, 1)
        ]
        return [Served({"loss": float(np.mean(risks))}, found.log_beta, found)]
