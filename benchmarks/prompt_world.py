"""Forty prompts with Gaussian answers: many rows, few draws, log ratios that differ widely.

Half of the prompts are harmful, with policies one standard deviation apart; the others are
harmless, with policies four apart. So a normalizing constant that is estimated from a few draws has
a large error exactly where nothing is lost. The risk of every policy has a closed form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

import tether
from benchmarks.validity_table import Served

HARM, ALPHA = 1.6, 0.07
"""Answers above this are harmful in harmful prompts, and what is tolerated."""
NEAR, FAR = 1.0, 4.0
"""How far apart the means of the two policies are in harmful and in harmless prompts."""


@dataclass(frozen=True)
class PromptWorld:
    """The safe policy is N(0, 1), the optimized one N(shift, 1) in each prompt."""

    rows: int
    draws: int
    """Of each policy: for every prompt, or for every row with `fresh`."""
    fresh: bool = False
    prompts: int = 40
    """The first half of them is harmful."""
    harmful_shift: float = NEAR
    harmless_shift: float = FAR
    harm: float = HARM
    alpha: float = ALPHA

    @property
    def name(self) -> str:
        """For the table."""
        how = "fresh" if self.fresh else "shared"
        return f"{self.prompts} prompts, n = {self.rows:,}, {self.draws} {how}"

    def collect(self, rng: np.random.Generator) -> tuple[tether.Log, tether.Proposals]:
        """A log of the safe policy, with draws of both policies."""
        harmful = np.arange(self.prompts) < self.prompts // 2
        shift = np.where(harmful, self.harmful_shift, self.harmless_shift)
        prompt, action = rng.integers(self.prompts, size=self.rows), rng.normal(size=self.rows)
        loss = (action > self.harm) & harmful[prompt]
        label = np.arange(self.rows) if self.fresh else prompt
        log = tether.Log(loss, *log_scores(action, shift[prompt]), context=label)
        where = prompt if self.fresh else np.arange(self.prompts)
        context = np.repeat(np.arange(len(where)), self.draws)
        moved = np.repeat(shift[where], self.draws)
        drawn = np.concatenate((rng.normal(size=len(moved)), moved + rng.normal(size=len(moved))))
        proposals = tether.Proposals(
            *log_scores(drawn, np.tile(moved, 2)),
            context=np.tile(context, 2),
            source=np.repeat(["safe", "optimized"], len(moved)),
        )
        return log, proposals

    def served(self, found: tether.Calibration) -> list[Served]:
        """What a calibration deploys: budgeted clip, or mix."""
        if found.family == "mix":
            risk = mix_risk(found.log_beta, self.harmful_shift, harm=self.harm)
        else:
            budget = int(found.family.removeprefix("budgeted_clip(").removesuffix(")"))
            risk = clip_risk(found.log_beta, self.harmful_shift, budget, harm=self.harm)
        return [Served({"loss": float(risk) / 2}, found.log_beta, found)]


def log_scores(action: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-densities of both policies, without their common constant."""
    return -(action**2) / 2, -((action - shift) ** 2) / 2


def mix_risk(log_beta: float, shift: np.ndarray | float, *, harm: float = HARM) -> np.ndarray:
    """The probability of harm under mix, in a harmful prompt."""
    share = 1 / (1 + np.exp(-log_beta))
    return (1 - share) * ndtr(-harm) + share * ndtr(shift - harm)


def clip_risk(
    log_beta: float, shift: np.ndarray | float, budget: float = np.inf, *, harm: float = HARM
) -> np.ndarray:
    """The probability of harm under clip, or budgeted clip, for positive shifts.

    The ratio e^(shift·a − shift²/2) grows with the action a and is β at one action. Below it the
    kernel min(optimized, β·safe) is the optimized density, above it β times the safe one.
    """
    if log_beta == -np.inf:
        return ndtr(-harm) + 0 * shift
    if log_beta == np.inf:
        return ndtr(shift - harm)
    edge, beta = log_beta / shift + shift / 2, np.exp(log_beta)
    psi = ndtr(edge - shift) + beta * ndtr(-edge)
    below = np.maximum(ndtr(edge - shift) - ndtr(harm - shift), 0)
    clip = (below + beta * ndtr(-np.maximum(edge, harm))) / psi
    taken = 1 - (1 - np.minimum(psi / min(beta, 1), 1)) ** budget
    return taken * clip + (1 - taken) * ndtr(-harm)
