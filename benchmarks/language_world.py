"""Random languages: prompts, a safe and tuned models of their answers, and harm that tuning courts.

An answer is a walk over a few tokens that ends at an end token or is cut off. Each prompt has its
own table of next tokens. A tuned model prefers tokens that are harmful in half of the prompts, so
that picking by its log ratio raises the risk. Every run has a language of its own. The risk of best
of N is a mean over many fresh shortlists, each summed over its candidates: without bias, with an
error that is small beside the spread over languages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tether
from tether.control.families import find_family

PROMPTS, TOKENS, LENGTH, END = 6, 8, 12, 0
SAFE_RISK, ALPHA = 0.1, 0.12
"""Losses are scaled to this risk of the safe model; and what is tolerated."""
STRENGTHS = (0.6, 1.0)
"""How much each of the tuned models prefers what it likes."""
TEMPERATURE = 0.4
"""At which candidates are picked; below 1, so that picking courts harm more than tuning does."""
MEASURED_ANSWERS, MEASURED_SHORTLISTS = 10_000, 2_400


@dataclass(frozen=True)
class Language:
    """Tables of next tokens by prompt and last token; the last row is that after the prompt."""

    safe: np.ndarray
    tuned: tuple[np.ndarray, ...]
    harm: np.ndarray
    """Of each token in each prompt, per occurrence."""

    @staticmethod
    def random(rng: np.random.Generator) -> Language:
        """A language in which tuned models prefer what does harm in half of the prompts."""
        shape = (PROMPTS, TOKENS + 1, TOKENS)
        safe = rng.dirichlet(np.full(TOKENS, 0.7), size=shape[:2]) * 0.9 + 0.1 / TOKENS
        taste = rng.uniform(0.0, 2.0, size=(PROMPTS, 1, TOKENS))
        liked = taste - (np.arange(TOKENS) == END) * (taste - 1)  # the end is neither
        tuned = []
        for strength in STRENGTHS:
            table = safe * np.exp(strength * liked + 0.1 * rng.normal(size=shape))
            tuned.append(table / table.sum(axis=2, keepdims=True))
        harm = (liked[:, 0] - 1).clip(min=0) * (np.arange(PROMPTS) % 2)[:, None]
        plain = Language(safe, tuple(tuned), harm)
        prompts = rng.integers(PROMPTS, size=MEASURED_ANSWERS)
        answers = plain.draw(prompts, rng)
        low, high = 0.0, 100.0
        for _ in range(25):  # the loss is bounded by 1, so its scale is found by bisection
            middle = (low + high) / 2
            scaled = Language(safe, tuple(tuned), middle * harm)
            is_low = scaled.losses(prompts, answers).mean() < SAFE_RISK
            low, high = (middle, high) if is_low else (low, middle)
        return scaled

    def draw(self, prompts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One answer of the safe model per prompt, padded with −1 after its end."""
        cumulative = self.safe.cumsum(axis=2)
        answers = np.full((len(prompts), LENGTH), -1)
        last, open_ = np.full(len(prompts), TOKENS), np.ones(len(prompts), dtype=bool)
        for step in range(LENGTH):
            uniform = rng.random((len(prompts), 1))
            token = (uniform > cumulative[prompts, last]).sum(axis=1).clip(max=TOKENS - 1)
            answers[open_, step] = token[open_]
            last, open_ = token, open_ & (token != END)
        return answers

    def log_ratio(self, model: int, prompts: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Log tuned − log safe density of answers of any shape (rows, …, tokens)."""
        table = np.log(self.tuned[model]) - np.log(self.safe)
        place = np.broadcast_to(
            prompts.reshape(-1, *[1] * (answers.ndim - 1)), (*answers.shape[:-1], 1)
        )
        start = np.full((*answers.shape[:-1], 1), TOKENS)
        before = np.concatenate([start, answers[..., :-1]], axis=-1)
        steps = table[place, before, answers]
        return np.where(answers >= 0, steps, 0.0).sum(axis=-1)

    def losses(self, prompts: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """The harm of an answer's tokens, at most 1."""
        place = prompts.reshape(-1, *[1] * (answers.ndim - 1))
        each = np.where(answers >= 0, self.harm[place, answers], 0.0)
        return np.minimum(each.sum(axis=-1), 1.0)

    def shortlist(self, size: int, model: int | None = None) -> tether.Shortlist:
        """Best of `size` by the log ratio of a tuned model, or without one."""
        picker = None if model is None else Picks(self, model)
        return tether.Shortlist(self.draw, picker, size=size, temperature=TEMPERATURE)

    def risk(
        self, size: int, model: int, family: str, log_beta: float, rng: np.random.Generator
    ) -> float:
        """The expected loss of what is served, from fresh shortlists."""
        prompts = np.tile(np.arange(PROMPTS), MEASURED_SHORTLISTS // PROMPTS)
        candidates = self.draw(np.repeat(prompts, size), rng)
        candidates = candidates.reshape(len(prompts), size, LENGTH)
        losses = self.losses(prompts, candidates)
        if log_beta == -np.inf:
            return float(losses.mean())
        scores = self.log_ratio(model, prompts, candidates) / TEMPERATURE
        log_picked = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
        log_safe = np.full(scores.shape, -np.log(size))
        chosen, log_psi = find_family(family), np.zeros((len(prompts), 1))
        if np.isfinite(log_beta) and not chosen.normalized:
            kernel = chosen.log_kernel(log_safe, log_picked, log_beta)
            log_psi = np.logaddexp.reduce(kernel, axis=1)[:, None]
        density = np.exp(chosen.log_density(log_safe, log_picked, log_beta, log_psi))
        return float((density * losses).sum(axis=1).mean())


@dataclass(frozen=True)
class Picks:
    """A score of candidates: the log ratio of a tuned model."""

    language: Language
    model: int

    def __call__(self, contexts: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The scores of candidates."""
        return self.language.log_ratio(self.model, np.asarray(contexts), np.asarray(candidates))
