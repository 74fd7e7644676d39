"""Optimized policies that are tilted by predicted losses, or made sharper or flatter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether._core import validate
from tether._core.arrays import Contexts, Floats
from tether.aiming.loss_models import LossModel, candidate_losses, policy_tables
from tether.policies.policy import TablePolicy
from tether.policies.shortlist import ShortlistRows
from tether.sampling.samplers import log_softmax


class _Tilted:
    """A policy over actions or positions, and how hard each predicted loss tilts it."""

    def __init__(
        self,
        policy: Any,
        loss_models: Mapping[str, LossModel],
        multipliers: Mapping[str, float],
    ) -> None:
        if list(loss_models) != list(multipliers) or not all(map(callable, loss_models.values())):
            raise ValueError(
                f"multipliers must name the losses of loss_models, {list(loss_models)}, got "
                f"{list(multipliers)}"
            )
        self.policy, self.actions = policy, policy.actions
        self.loss_models, self.multipliers = dict(loss_models), dict(multipliers)
        self._values = np.array(list(multipliers.values()), dtype=np.float64)
        if not np.isfinite(self._values).all():
            raise ValueError(f"multipliers must be finite, got {multipliers}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.policy!r}, multipliers={self.multipliers})"


class AimedPolicy(_Tilted, TablePolicy):
    """π(a | x)·exp(−Σ_j λ_j·l̂_j(x, a)), normalized: exact over finitely many actions.

    Parameters
    ----------
    policy : FinitePolicy
        The policy that is tilted.
    loss_models : mapping of str to callable
        For each loss, a function of (contexts, actions) that returns predicted losses.
    multipliers : mapping of str to float
        For each loss, how hard it tilts.
    """

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context."""
        if not self._values.any():
            return np.asarray(self.policy.log_prob_all(contexts))
        table, predicted = policy_tables(self.policy, self.loss_models, contexts)
        return log_softmax(table - np.tensordot(self._values, predicted, 1))


class AimedScore(_Tilted):
    """The score of a shortlist's candidates: an `AimedPolicy` whose policy is a `Picker`."""

    def __call__(self, contexts: Contexts, candidates: NDArray[Any]) -> Floats:
        """Score the candidates of each context."""
        rows = ShortlistRows(contexts, candidates)
        penalty = np.tensordot(self._values, candidate_losses(self.loss_models, rows), 1)
        return np.asarray(self.policy.log_prob_all(rows) - penalty)


class TemperedPolicy(TablePolicy):
    """π(a | x)^(1/temperature), normalized: below 1 likely actions become more likely."""

    def __init__(self, policy: Any, temperature: float) -> None:
        self.policy, self.actions = policy, policy.actions
        self.temperature = validate.number("temperature", temperature, above=0, below=np.inf)

    def log_prob_all(self, contexts: Contexts) -> Floats:
        """Compute the log-probability of every action in each context."""
        return log_softmax(self.policy.log_prob_all(contexts), self.temperature)

    def __repr__(self) -> str:
        return f"TemperedPolicy({self.policy!r}, temperature={self.temperature:g})"
