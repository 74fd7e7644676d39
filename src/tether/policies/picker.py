"""Picking one of the candidates of each row by a score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import policy_calls, validate
from tether._core.arrays import Floats, Integers, shown
from tether._core.contexts import as_contexts, length, take
from tether.policies.policy import TablePolicy, as_policy
from tether.sampling.samplers import log_softmax


@dataclass(frozen=True, eq=False, repr=False)
class ShortlistRows:
    """One row per context, each with N candidates: the contexts of a policy that picks one.

    Its action is the position of a candidate.

    Examples
    --------
    >>> rows = ShortlistRows(np.array([1.0, 2.0]), np.array([["a", "b"], ["c", "d"]]))
    >>> rows, rows.picked(np.array([1, 0])).tolist()
    (ShortlistRows(2 rows of 2 candidates), ['b', 'c'])
    """

    contexts: Any
    candidates: NDArray[Any]

    def __post_init__(self) -> None:
        candidates = np.asarray(self.candidates)
        object.__setattr__(self, "candidates", candidates)
        if len(candidates):
            object.__setattr__(self, "contexts", as_contexts(self.contexts))
        if candidates.ndim < 2 or len(candidates) != length(self.contexts):
            raise ValueError(
                f"candidates must have shape (rows, N) or (rows, N, …) with "
                f"{length(self.contexts)} row(s), got shape {candidates.shape}"
            )

    @property
    def shape(self) -> tuple[int]:
        """The number of rows, as contexts have it."""
        return (len(self.candidates),)

    @property
    def size(self) -> int:
        """The number of candidates per row."""
        return int(self.candidates.shape[1])

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, index: slice | Integers) -> ShortlistRows:
        rows = np.arange(len(self))[index]
        return ShortlistRows(take(self.contexts, rows), self.candidates[rows])

    def __repr__(self) -> str:
        return f"ShortlistRows({len(self)} rows of {self.size} candidates)"

    def picked(self, index: Integers) -> NDArray[Any]:
        """The candidates at the given positions, one per row: the actions."""
        return np.asarray(self.candidates[np.arange(len(self)), index])

    def pairs(self) -> tuple[Any, NDArray[Any]]:
        """Every candidate with its context, row after row, as `log_prob` of a policy takes them."""
        rows = np.repeat(np.arange(len(self)), self.size)
        return take(self.contexts, rows), self.candidates.reshape(-1, *self.candidates.shape[2:])


def without_candidates(contexts: Any, actions: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Contexts and actions, also where they are candidates and positions among these."""
    if isinstance(contexts, ShortlistRows):
        return contexts.contexts, contexts.picked(actions)
    return contexts, actions


class Picker(TablePolicy):
    """Picks candidate k with probability proportional to e^(score_k / temperature).

    A policy over the positions 0 to N − 1, whose contexts are `ShortlistRows`. The score is

    - what a function returns;
    - for an optimized policy, log optimized − log safe density, so that picking approximates the
      optimized policy, the better the larger N is;
    - where the safe policy cannot state log-probabilities, the optimized policy's alone: picking
      approximates the *product* of the safe density and the optimized one^(1 / temperature).

    A score of −inf excludes a candidate. If all of a row are excluded, they are equally likely.

    Parameters
    ----------
    optimized : callable or Policy
        A function of (contexts, candidates) that returns one score per candidate, of shape
        (rows, N), or an optimized policy. The scores of a row must depend on that row alone.
    size : int
        The number N of candidates per row.
    temperature : float, default 1.0
        A temperature below 1 sharpens the distribution, above 1 flattens it; 0 picks the best
        candidate, at random among equally good ones.
    safe : object, optional
        What draws the candidates; its `log_prob`, if it has one, is used for the ratio to an
        optimized policy.
    """

    def __init__(
        self, optimized: Any, size: int, temperature: float = 1.0, safe: Any = None
    ) -> None:
        self.size = validate.integer("size", size, 2)
        limits: Any = {"above": 0, "below": np.inf, "including": (0,)}
        self.temperature = validate.number("temperature", temperature, **limits)
        self.actions = validate.frozen(np.arange(self.size))
        self._is_policy = hasattr(optimized, "log_prob") or hasattr(optimized, "predict_proba")
        if self._is_policy:
            optimized = as_policy("optimized", optimized)
        elif isinstance(optimized, type) or not callable(optimized):
            raise TypeError(
                f"optimized must be a function of (contexts, candidates) that returns scores, or a "
                f"policy, got {shown(optimized)}"
            )
        self.optimized = optimized
        self._reference = safe if self._is_policy and hasattr(safe, "log_prob") else None

    def __repr__(self) -> str:
        return f"Picker({self.optimized!r}, size={self.size}, temperature={self.temperature:g})"

    def scores(self, rows: ShortlistRows) -> Floats:
        """Score every candidate of each row, before scores are divided by the temperature."""
        if not isinstance(rows, ShortlistRows):
            raise TypeError(
                f"contexts of a picker must be ShortlistRows, as Shortlist.draw makes them, got "
                f"{type(rows).__name__}"
            )
        if rows.size != self.size:
            raise ValueError(f"the rows have {rows.size} candidates, expected {self.size}")
        shape = (len(rows), self.size)
        if self._is_policy:
            return self._log_ratio(*rows.pairs()).reshape(shape)
        # Copies: a function that sorts in place would move candidates away from their positions.
        contexts = rows.contexts.copy() if isinstance(rows.contexts, np.ndarray) else rows.contexts
        answer = self.optimized(contexts, rows.candidates.copy())
        if hasattr(answer, "detach"):  # a torch tensor
            answer = answer.detach().cpu().numpy()
        array = np.asarray(answer)
        if array.shape != shape:
            raise ValueError(
                f"the score has shape {array.shape} for candidates of shape "
                f"{rows.candidates.shape}, expected {shape}: one score per candidate"
            )
        scores = validate.floats("the score's result", array, ndim=2)
        if not scores.max() < np.inf:
            validate.reject(
                "the score's result", scores, ~(scores < np.inf), "a score below +inf, not NaN"
            )
        return scores

    @property
    def check_every(self) -> float:
        """Seconds between two checks of a run that old rows have their scores; 0 is always."""
        return float(getattr(self.optimized, "check_every", 0.0))

    def log_prob_all(self, contexts: Any) -> Floats:
        """The log-probability of picking each candidate of `ShortlistRows`."""
        return self.to_log_probabilities(self.scores(contexts))

    def to_log_probabilities(self, scores: Floats) -> Floats:
        """Turn scores into the log-probabilities with which candidates are picked."""
        scores = np.where(scores.max(axis=1, keepdims=True) > -np.inf, scores, 0.0)
        if self.temperature > 0:
            return log_softmax(scores, self.temperature)
        best = scores == scores.max(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(best) - np.log(best.sum(axis=1, keepdims=True)))

    def _log_ratio(self, contexts: Any, actions: NDArray[Any]) -> Floats:
        if self._reference is None:
            return policy_calls.score("optimized", self.optimized, contexts, actions)
        log_safe, log_optimized = policy_calls.score_both(
            self._reference, self.optimized, contexts, actions, drew_safe=True
        )
        return np.asarray(log_optimized - log_safe)
