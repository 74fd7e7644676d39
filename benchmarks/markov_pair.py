"""Both models of a language as policies, tethered at every token, for rounds of a controller.

The context is the token before the answer, the action is the answer's tokens. So everything that a
run stores, scores and draws is real, and the risk of what it serves is an exact sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether
from benchmarks.markov_language import LOG_BETAS, TOKENS, MarkovLanguage, log_densities
from benchmarks.path_draws import draw_along_path


@dataclass(frozen=True)
class MarkovPolicy:
    """A transition matrix that writes answers."""

    model: np.ndarray
    length: int
    log_beta: float = -np.inf

    @property
    def beta(self) -> float:
        """How far the optimized model may pull away."""
        return float(np.exp(self.log_beta))

    def sample(self, contexts, rng: np.random.Generator) -> np.ndarray:
        """The tokens of one answer per context."""
        cumulative = self.model.cumsum(axis=1)
        cumulative[:, -1] = 1.0
        last, answers = np.asarray(contexts)[:, 0], []
        for _ in range(self.length):
            last = (rng.random(len(last))[:, None] > cumulative[last]).sum(axis=1)
            answers.append(last)
        return np.stack(answers, axis=1)

    def log_prob(self, contexts, actions) -> np.ndarray:
        """The log-probability of each answer, given the token before it."""
        return log_densities(pairs_of(contexts, actions), self.model[None])[:, 0]


@dataclass(frozen=True)
class MarkovPair:
    """The safe and the optimized model of a language, tethered at every token."""

    world: MarkovLanguage
    safe: MarkovPolicy
    rule: str = "clip"

    @property
    def optimized(self) -> MarkovPolicy:
        """The optimized model."""
        return MarkovPolicy(self.world.optimized, self.world.length, np.inf)

    @property
    def family(self) -> str:
        """The name of the family."""
        return f"token_{self.rule}"

    @property
    def log_betas(self) -> np.ndarray:
        """The betas to choose from."""
        return LOG_BETAS

    def path_scores(self, contexts, actions) -> np.ndarray:
        """Scores of answers: safe, optimized, and at every beta."""
        ends = np.array([self.world.safe, self.world.optimized])
        models = np.concatenate([ends, self.world.token_path(self.rule)])
        return log_densities(pairs_of(contexts, actions), models)

    def make_proposals(self, contexts, rng, *, draws=32, logged_by=None) -> tether.Proposals:
        """Draws of the policy at every beta, each in another row of the contexts."""
        return draw_along_path(self, contexts, rng, draws, logged_by)

    def tethered(self, found: tether.Calibration) -> MarkovPolicy:
        """The policy at a calibrated beta."""
        return self.at(found.log_beta)

    def at(self, log_beta: float) -> MarkovPolicy:
        """The policy at a beta."""
        if np.isinf(log_beta):
            return self.optimized if log_beta > 0 else self.safe
        model = self.world.token_path(self.rule, np.array([log_beta]))[0]
        return MarkovPolicy(model, self.world.length, float(log_beta))


def pairs_of(contexts, actions) -> np.ndarray:
    """How often each token follows each other in answers (answers × pairs of tokens)."""
    tokens = np.column_stack((np.asarray(contexts), np.asarray(actions)))
    pairs = np.zeros((len(tokens), TOKENS * TOKENS))
    for place in range(tokens.shape[1] - 1):
        pairs[np.arange(len(tokens)), tokens[:, place] * TOKENS + tokens[:, place + 1]] += 1
    return pairs
