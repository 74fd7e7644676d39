"""Languages in which the next token depends on the last one, small enough for exact answers.

The safe model is a random transition matrix; the optimized one tilts it towards tokens with a
reward until its divergence from the safe one, in nats per answer, is what was asked for. An answer
is harmful if its tokens have enough points: in a language of *spread* harm many tokens have some,
a little more so those with a reward; with *rare* harm one token has them all, which the safe model
hardly ever writes and the optimized one boosts more than any other. The risk and the mean reward of
any transition matrix are exact sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

TOKENS = 16
SAFE_RISK = 0.05
HARMS = ("spread", "rare")
LOG_BETAS = np.linspace(-12.0, 6.0, 73)


@dataclass(frozen=True)
class MarkovLanguage:
    """Two models of answers of one length, that many nats apart, with one kind of harm."""

    length: int
    divergence: float
    harm: str = "spread"
    seed: int = 0

    @property
    def name(self) -> str:
        """What a table calls it."""
        return f"{self.harm} harm, {self.length} tokens, {self.divergence:g} nats"

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The safe model, the rewards of tokens, what the optimized one follows, and the points."""
        rng = np.random.default_rng(self.seed)
        safe = rng.dirichlet(np.full(TOKENS, 0.7), size=TOKENS) * 0.98 + 0.02 / TOKENS
        reward = rng.normal(size=TOKENS)
        reward = (reward - reward.mean()) / reward.std()
        other = rng.normal(size=TOKENS)
        points = np.clip(np.round(1 + 0.3 * reward + 0.9 * other), 0, 3).astype(int)
        followed = reward.copy()
        if self.harm == "rare":
            bad = 1 - (1 - SAFE_RISK) ** (1 / self.length)
            safe[:, 0] = 0
            safe *= (1 - bad) / safe.sum(axis=1, keepdims=True)
            safe[:, 0] = bad
            reward[0] = 0.0
            followed = reward.copy()
            followed[0] = 2 * np.abs(reward).max()
            points = (np.arange(TOKENS) == 0).astype(int)
        return safe, reward, followed, points

    @property
    def safe(self) -> np.ndarray:
        """The safe model's transition matrix."""
        return self._parts[0]

    @cached_property
    def optimized(self) -> np.ndarray:
        """The optimized model's transition matrix."""
        strength = brentq(lambda s: self._nats(self._tilted(s)) - self.divergence, 0.0, 40.0)
        return self._tilted(strength)

    @cached_property
    def threshold(self) -> int:
        """The points at which an answer is harmful: the safe model's risk is at most 5 %."""
        if self.harm == "rare":
            return 1
        most = int(self._parts[3].max()) * self.length
        reached = 1 - np.cumsum(self._points_of(self.safe, most + 1))
        return int(np.argmax(reached <= SAFE_RISK)) + 1

    def token_path(self, family: str, log_betas: np.ndarray = LOG_BETAS) -> np.ndarray:
        """The transition matrices tethered at every token, one per beta."""
        beta = np.exp(log_betas)[:, None, None]
        if family == "mix":
            return (self.safe + beta * self.optimized) / (1 + beta)
        kernel = np.minimum(self.optimized, beta * self.safe)
        return kernel / kernel.sum(axis=2, keepdims=True)

    def draw(self, model: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """Answers, as how often each token followed each other (answers × pairs of tokens)."""
        cumulative = model.cumsum(axis=1)
        cumulative[:, -1] = 1.0
        last, rows = rng.integers(TOKENS, size=size), np.arange(size)
        pairs = np.zeros((size, TOKENS * TOKENS))
        for _ in range(self.length):
            token = (rng.random(size)[:, None] > cumulative[last]).sum(axis=1)
            pairs[rows, last * TOKENS + token] += 1
            last = token
        return pairs

    def losses(self, pairs: np.ndarray) -> np.ndarray:
        """Whether each answer is harmful."""
        return (self._counts(pairs) @ self._parts[3] >= self.threshold).astype(float)

    def rewards(self, pairs: np.ndarray) -> np.ndarray:
        """The mean reward of the tokens of each answer."""
        return self._counts(pairs) @ self._parts[1] / self.length

    def risk(self, model: np.ndarray) -> float:
        """The probability that an answer of a model is harmful, exactly."""
        return float(1 - self._points_of(model, self.threshold).sum())

    def mean_reward(self, model: np.ndarray) -> float:
        """The expected reward of an answer of a model, exactly."""
        chance, total = np.full(TOKENS, 1 / TOKENS), 0.0
        for _ in range(self.length):
            chance = chance @ model
            total += chance @ self._parts[1]
        return total / self.length

    def _points_of(self, model: np.ndarray, limit: int) -> np.ndarray:
        """The probability of each number of points below a limit."""
        state = np.zeros((TOKENS, limit))
        state[:, 0] = 1 / TOKENS
        points = self._parts[3]
        for _ in range(self.length):
            moved = model.T @ state
            state = np.zeros_like(moved)
            for token, more in enumerate(points):
                if more < limit:
                    state[token, more:] = moved[token, : limit - more]
        return state.sum(axis=0)

    def _tilted(self, strength: float) -> np.ndarray:
        tilted = self.safe * np.exp(strength * self._parts[2])
        return tilted / tilted.sum(axis=1, keepdims=True)

    def _nats(self, model: np.ndarray) -> float:
        """The divergence of a model from the safe one, in nats per answer."""
        per_token = (model * np.log(model / self.safe)).sum(axis=1)
        chance, total = np.full(TOKENS, 1 / TOKENS), 0.0
        for _ in range(self.length):
            total += chance @ per_token
            chance = chance @ model
        return total

    @staticmethod
    def _counts(pairs: np.ndarray) -> np.ndarray:
        return pairs.reshape(-1, TOKENS, TOKENS).sum(axis=1)


def log_densities(pairs: np.ndarray, models: np.ndarray) -> np.ndarray:
    """The log-density of answers (rows) under models (columns), given their first token."""
    return pairs @ np.log(models).reshape(-1, TOKENS * TOKENS).T
