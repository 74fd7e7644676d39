"""Answers of one token to prompts that differ: languages against draws in the prompts of a log.

What is served is exact, and so is its risk. In *a rare prompt* the optimized model does harm that
the safe one hardly ever does, and a log has that prompt about as often as not. In *rare harm* the
optimized model does more or less of it in each of forty prompts, most of which are rare. In *far
prompts* the models are 14 nats apart where nothing can happen, and near where something can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether
from benchmarks.path_draws import draw_along_path

LOG_BETAS = np.linspace(-8.0, 4.0, 25)
NAMES = ("a rare prompt", "rare harm in prompts", "far prompts")


@dataclass(frozen=True, eq=False)
class PromptLanguage:
    """The probabilities of prompts, both models (prompts × answers), and the losses of answers."""

    name: str
    prompts: np.ndarray
    safe: np.ndarray
    optimized: np.ndarray
    loss: np.ndarray

    def risk(self, model: np.ndarray) -> float:
        """The expected loss of an answer of a model."""
        return float(self.prompts @ (model * self.loss).sum(axis=1))

    def draw_prompts(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Prompts as they come."""
        return rng.choice(len(self.prompts), size=(rows, 1), p=self.prompts)


def prompt_language(name: str, rows: int) -> PromptLanguage:
    """One of the languages; the rare prompt is one of so many rows and one."""
    rng = np.random.default_rng(5)
    if name == NAMES[0]:
        safe = [[0.55, 0.4, 0.05], [0.949999, 0.05, 1e-6]]
        optimized = [[0.3, 0.62, 0.08], [1e-4, 1e-4, 0.9998]]
        rare = 1 / (rows + 1)
        prompts, loss = np.array([1 - rare, rare]), np.tile([0.0, 0.0, 1.0], (2, 1))
    elif name == NAMES[1]:
        count = 40
        safe = np.column_stack((rng.random((count, 3)) + 0.1, np.full(count, 0.03)))
        optimized = np.column_stack(
            (rng.random((count, 3)) ** 4 + 0.01, 2 * rng.random(count) ** 6)
        )
        prompts, loss = 1 / np.arange(1.0, count + 1), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    else:
        near, far = rng.random((4, 6)) + 0.2, np.repeat([1.0, 1e-6], 3)
        boosted = near * np.array([4.0, 1, 1, 1, 1, 1])
        safe = np.vstack((near, np.tile(far, (4, 1))))
        optimized = np.vstack((boosted, np.tile(far[::-1], (4, 1))))
        prompts, loss = np.ones(8), np.zeros((8, 6))
        loss[:4, 0] = 0.3
    models = (np.asarray(each) / np.sum(each, axis=1, keepdims=True) for each in (safe, optimized))
    return PromptLanguage(name, prompts / prompts.sum(), *models, loss)


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """A model as a table of probabilities (prompts × answers)."""

    table: np.ndarray
    log_beta: float = -np.inf

    @property
    def beta(self) -> float:
        """How far the optimized model may pull away."""
        return float(np.exp(self.log_beta))

    def sample(self, contexts, rng: np.random.Generator) -> np.ndarray:
        """One answer per prompt."""
        cumulative = self.table[np.asarray(contexts)[:, 0]].cumsum(axis=1)
        cumulative[:, -1] = 1.0
        return (rng.random(len(cumulative))[:, None] > cumulative).sum(axis=1)[:, None]

    def log_prob(self, contexts, actions) -> np.ndarray:
        """The log-probability of each answer."""
        return np.log(self.table[np.asarray(contexts)[:, 0], np.asarray(actions)[:, 0]])


@dataclass(frozen=True, eq=False)
class PromptPair:
    """Both models of a language, tethered at the one token of an answer."""

    language: PromptLanguage
    safe: TablePolicy
    rule: str = "clip"
    common_only: bool = False
    """Wrong: whether draws are made in the most frequent prompt alone."""

    @property
    def optimized(self) -> TablePolicy:
        """The optimized model."""
        return self.at(np.inf)

    @property
    def family(self) -> str:
        """The name of the family."""
        return f"token_{self.rule}"

    @property
    def log_betas(self) -> np.ndarray:
        """The betas to choose from."""
        return LOG_BETAS

    def at(self, log_beta: float) -> TablePolicy:
        """The policy at a beta."""
        safe, optimized, beta = self.language.safe, self.language.optimized, np.exp(log_beta)
        if np.isinf(log_beta):
            table = optimized if log_beta > 0 else safe
        elif self.rule == "mix":
            table = (safe + beta * optimized) / (1 + beta)
        else:
            kernel = np.minimum(optimized, beta * safe)
            table = kernel / kernel.sum(axis=1, keepdims=True)
        return TablePolicy(table, float(log_beta))

    def path_scores(self, contexts, actions) -> np.ndarray:
        """Scores of answers: safe, optimized, and at every beta."""
        policies = (self.safe, self.optimized, *map(self.at, LOG_BETAS))
        return np.stack([each.log_prob(contexts, actions) for each in policies], axis=1)

    def make_proposals(self, contexts, rng, *, draws=32, logged_by=None) -> tether.Proposals:
        """Draws of the policy at every beta, each in another row of the prompts."""
        if self.common_only:
            contexts = np.asarray(contexts)
            contexts = contexts[contexts[:, 0] == np.argmax(self.language.prompts)]
        return draw_along_path(self, contexts, rng, draws, logged_by)

    def tethered(self, found: tether.Calibration) -> TablePolicy:
        """The policy at a calibrated beta."""
        return self.at(found.log_beta)
